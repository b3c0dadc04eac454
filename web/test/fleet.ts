import type { DeviceRow, FleetDocument, HostRow } from "../src/generated/fleet";

const HOSTILE = `</script><img src=x onerror="document.title='owned'">`;
const START_S = 1_795_000_000;

/** Sixty hosts with two disks each; one of them lost time, one has no peers, one has a hostile name. */
export function fleet(): FleetDocument & { format: number } {
  const hosts: HostRow[] = [];
  const devices: DeviceRow[] = [];
  for (let i = 0; i < 60; i++) {
    const host = i === 7 ? HOSTILE : `node${i}`;
    const lost_s = i === 41 ? 512.5 : i === 9 ? null : i / 100;
    const sums = { host, ios: 1000 * i, bytes: 4096000 * i, lost_s, busy_percent: i, p99_us: 900 + i, errors: i === 3 ? 2 : 0, lost_ios: null, worst_unix_s: i === 5 ? null : START_S + 60 * i };
    hosts.push({ ...sums, recordings: 1, from_unix_s: START_S, to_unix_s: START_S + 86400, disks: 2 });
    for (const device of ["sda", "sdb"]) devices.push({ ...sums, device, stable_id: null, model: "M1", read_us: 120, write_us: null });
  }
  return {
    format: 1, schema_version: 1, from_unix_s: START_S, to_unix_s: START_S + 86400, hosts, devices,
    hosts_left_out: 12, notes: ["a recording is damaged; left out"],
  };
}
