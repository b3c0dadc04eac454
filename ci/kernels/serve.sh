# What happens to a whole machine beside `iolens serve`: its clock is set, it sleeps, its file system turns read-only and
# back, a disk comes. Sourced by guest.sh in mode "serve"; serve.py judges what it leaves.
ifconfig lo up
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/$scsi && mount -t ext4 /dev/$scsi /mnt
dd if=/dev/zero of=/tmp/plugged.img bs=1M count=64 2>/dev/null
iolens serve --rec /mnt/root --keep 64M >$out/serve.log 2>&1 &
service=$!
for i in $(seq 3000); do
  [ -e "$(echo /mnt/root/host=*/start_ns=*/meta.json)" ] && break
  kill -0 $service 2>/dev/null || break
  sleep 0.2
done
while :; do /usr/bin/load random /dev/$nvme; sleep 0.3; done >/dev/null 2>&1 &
loads=$!
# ask PATH FILE: once more where the connection comes to nothing
ask() {
  for i in 1 2 3; do
    printf "GET $1 HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n" | nc 127.0.0.1 9950 >$2
    [ -s $2 ] && return
    sleep 1
  done
}
# step NAME COMMAND...: does it, waits, and keeps what the service says then
step() {
  name=$1
  shift
  "$@" >$out/$name.log 2>&1
  say "$(uptime_s) $name: exit $?"
  sleep 8
  ask /healthz $out/$name.health
  ask /metrics $out/$name.metrics
}
moved_clock() { date -s @$(($(date +%s) + $1)); }
sleeps() { echo 0 >/sys/class/rtc/rtc0/wakealarm; echo +5 >/sys/class/rtc/rtc0/wakealarm && echo freeze >/sys/power/state; }
turns_read_only() { echo u >/proc/sysrq-trigger; }
writable_again() { mount -o remount,rw /mnt; }
disk_comes() { losetup /dev/loop1 /tmp/plugged.img && sleep 2 && /usr/bin/load random /dev/loop1; }
step begins true
step clock-forward moved_clock 3600
step clock-back moved_clock -7200
step clock-right moved_clock 3600
step sleeps sleeps
step disk-comes disk_comes
step read-only turns_read_only
step writable writable_again
kill $loads
kill -TERM $service
wait $service
echo $? >$out/exit
sync
cp -r /mnt/root $out/root
