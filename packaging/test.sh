#!/usr/bin/env bash
# Installs the .deb in a clean Debian root, as a user would: doctor, a service that records real I/O, a query, SQL by
# the wheel in a new environment, purge. Nothing may remain. Needs root, mmdebstrap and a Debian mirror; prints SKIP
# without them.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "SKIP: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "a clean Debian root needs root"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is missing"
deb=$(ls "$PWD"/target/package/*.deb)
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")

work=$(mktemp -d)
root=$work/root
service=
disk=
cleanup() {
  [ -z "$service" ] || { pkill -TERM -P "$service"; wait "$service"; } || true
  [ -z "$disk" ] || losetup --detach "$disk"
  for m in proc sys; do mountpoint -q "$root/$m" && umount -l "$root/$m"; done
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT

systemd-analyze security --offline=true --threshold=19 packaging/systemd/iolens.service >"$work/exposure" ||
  { tail -1 "$work/exposure"; echo "FAIL: the unit is exposed to 2.0 or more" >&2; exit 1; }
tail -1 "$work/exposure"
lintian --fail-on error "$deb"

mmdebstrap --quiet --variant=minbase "$suite" "$root" 2>"$work/mmdebstrap" ||
  skip "no Debian root could be made: $(tail -1 "$work/mmdebstrap")"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --make-rslave "$root/sys"
listing() { # every file and its kind, without what the kernel shows and what apt and dpkg note down
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./tmp \) -prune \
    -o -printf '%y %p\n') | sort
}
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

listing >"$work/before"
cp "$deb" "$root/tmp/iolens.deb"
inside dpkg --install /tmp/iolens.deb
cmp packaging/debian/copyright "$root/usr/share/doc/iolens/copyright"
inside iolens --version
inside iolens doctor
# A disk and a port that no other program uses.
truncate -s 64M "$work/disk"
disk=$(losetup --find --show "$work/disk")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
inside iolens serve --rec /var/lib/iolens --listen "127.0.0.1:$port" 2>"$work/serve" &
service=$!
for _ in $(seq 100); do ls "$root"/var/lib/iolens/host=*/start_ns=* >/dev/null 2>&1 && break; sleep 0.1; done
dd if=/dev/zero of="$disk" bs=64K count=256 oflag=direct status=none
sleep 2
kill -TERM "$(pgrep -P "$service" -x iolens || echo "$service")"
wait "$service"
service=
cat "$work/serve"
inside iolens report /var/lib/iolens --at now --json >"$work/report"
python3 - "$work/report" "${disk#/dev/}" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
losses = {l["reason"]: l["ios"] for l in report["recording"]["losses"] if l["reason"] != "censored"}
# The kernel occasionally hides an I/O's completion.
hidden = losses.pop("unseen", 0)
assert not losses, f"I/Os were lost: {losses}"
written = next(d["write"]["bytes"] for d in report["devices"] if d["name"] == sys.argv[2])
assert written + (hidden << 16) >= 16 << 20, f"16 MiB were written, the report knows {written} bytes, {hidden} I/Os were hidden"
print(f"report: {written} bytes written to {sys.argv[2]}, {hidden} I/Os hidden by the kernel, none lost")
PY
advice=$(inside iolens query /var/lib/iolens "select 1" 2>&1 || true)
wheel=$(ls "$root"/usr/share/iolens/iolens-*.whl)
grep -qF "install ${wheel#"$root"}" <<<"$advice" || { echo "FAIL: query does not name its wheel: $advice" >&2; exit 1; }
packaging/wheel_test.sh target/package "$root/usr/bin/iolens" "$root/var/lib/iolens"
inside dpkg --purge iolens
listing >"$work/after"
diff "$work/before" "$work/after" || { echo "FAIL: the purge left something" >&2; exit 1; }
echo "package-test: installed, recorded, asked, purged; nothing remains"
