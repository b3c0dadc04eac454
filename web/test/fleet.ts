import type { DeviceRow, FindingRow, FleetDocument, HostRow, KindRow, Severity } from "../src/generated/fleet";

const HOSTILE = `</script><img src=x onerror="document.title='owned'">`;
const START_S = 1_795_000_000;

/** Sixty hosts with two disks each; one of them lost time, one has no peers, one has a hostile name; findings on four. */
export function fleet(): FleetDocument & { format: number } {
  const hosts: HostRow[] = [];
  const devices: DeviceRow[] = [];
  for (let i = 0; i < 60; i++) {
    const host = i === 7 ? HOSTILE : `node${i}`;
    const lost_s = i === 41 ? 512.5 : i === 9 ? null : i / 100;
    const sums = { host, ios: 1000 * i, bytes: 4096000 * i, lost_s, busy_percent: i, p99_us: 900 + i, errors: i === 3 ? 2 : 0, lost_ios: null, worst_unix_s: i === 5 ? null : START_S + 60 * i };
    hosts.push({ ...sums, recording_count: 1, from_unix_s: START_S, to_unix_s: START_S + 86400, disks: 2, slow_disks: i === 41 ? 1 : 0, finding_count: i === 7 ? 30 : 0 });
    for (const device of ["sda", "sdb"]) devices.push({ ...sums, device, stable_id: null, model: "M1", slow: i === 41 && device === "sdb", slow_factor: i === 9 ? null : i === 41 && device === "sdb" ? 3.1 : 1.02, read_us: 120, write_us: null });
  }
  const finding = (at_s: number, severity: Severity, kind: string, host = HOSTILE): FindingRow => {
    const start_unix_s = START_S + at_s;
    return { host, device: at_s === 500 ? null : "sda", kind, severity, summary: `p99 ${HOSTILE}`, start_unix_s, end_unix_s: start_unix_s + 8.5, open: at_s === 900 };
  };
  const findings = [finding(900, "critical", "stall", "node41"), finding(500, "warning", "slow-io"), ...[...Array(18).keys()].map((i) => finding(1000 - i, "info", "microburst"))];
  const kinds: KindRow[] = [
    { kind: "stall", severity: "critical", host_count: 1, finding_count: 1 },
    { kind: "slow-io", severity: "warning", host_count: 3, finding_count: 3 },
    { kind: "microburst", severity: "info", host_count: 1, finding_count: 28 },
  ];
  return {
    format: 1, schema_version: 2, from_unix_s: START_S, to_unix_s: START_S + 86400, hosts, devices,
    findings, findings_left_out: 12, kinds, hosts_unread: [], hosts_left_out: 12, notes: ["a recording is damaged; left out"],
  };
}
