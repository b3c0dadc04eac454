#!/bin/busybox sh
# /init of a guest: loads the modules, records while it applies one load after another, and writes what the kernel
# counted and what was recorded to the disk whose serial number is "results". Every load is a phase: /proc/diskstats
# before and after it, with everything settled, and the time of both.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
/bin/busybox mkdir -p /bin /sbin /usr/bin /usr/sbin /proc /sys /dev /tmp /run /mnt /root
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/mapper
mount -t tracefs trace /sys/kernel/tracing
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs -o size=600m tmpfs /tmp
mkdir -p /etc/lvm /run/lock/lvm
cat >/etc/lvm/lvm.conf <<EOF
devices { use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source="none" }
activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 }
global { event_activation=0 }
backup { backup=0 archive=0 }
EOF
ln -s /proc/self/mounts /etc/mtab
echo 1 >/proc/sys/kernel/panic
mode=full only=
for word in $(cat /proc/cmdline); do case $word in iolens.mode=*) mode=${word#*=} ;; iolens.only=*) only=${word#*=} ;; esac; done
out=/tmp/out
mkdir -p $out
say() { echo "guest: $*"; }

for m in virtio_pci virtio_blk nvme virtio_scsi sd_mod loop; do modprobe $m 2>/dev/null; done
[ "$mode" = short ] || for m in null_blk brd zram dm_mod dm_crypt dm_multipath dm_round_robin raid0 raid1 raid456 bfq \
  kyber_iosched mq_deadline ext4 xfs f2fs dm_delay; do case $m in
    null_blk) modprobe $m nr_devices=1 queue_mode=2 submit_queues=1 irqmode=0 gb=1 2>/dev/null ;;
    brd) modprobe $m rd_nr=1 rd_size=65536 2>/dev/null ;;
    zram) modprobe $m num_devices=1 2>/dev/null ;;
    *) modprobe $m 2>/dev/null ;;
  esac; done
sleep 1

# The device whose serial number is $1.
by_serial() {
  for d in /sys/block/*; do
    s=$(cat "$d/serial" "$d/device/serial" 2>/dev/null | head -1)
    [ -n "$s" ] || s=$(tail -c +5 "$d/device/vpd_pg80" 2>/dev/null | tr -d '\0')
    [ -b "/dev/${d##*/}" ] && [ "$(echo $s)" = "$1" ] && echo "${d##*/}"
  done
}
uptime_s() { cut -d' ' -f1 /proc/uptime; }

# phase TARGET CHECK COMMAND...: one load, and what the kernel counted of it
phase() {
  target=$1 check=$2
  shift 2
  case ",$only," in ,, | *",$target,"*) ;; *) return ;; esac
  n=$((n + 1))
  sleep 0.4
  t0=$(uptime_s)
  cat /proc/diskstats >$out/$n.before
  sleep 0.05
  [ "$2" != readahead ] || echo 3 >/proc/sys/vm/drop_caches
  "$@" >$out/$n.log 2>&1
  code=$?
  sync
  sleep 0.4
  cat /proc/diskstats >$out/$n.after
  sleep 0.05
  echo "$n $target $check $t0 $(uptime_s) $code" >>$out/phases
  say "$(uptime_s) $target $check: exit $code"
}
load() { phase $1 $2 /usr/bin/load $2 /dev/$3; }
all_loads() {
  for kind in random sizes buffered readahead fua flush; do load $1 $kind $2; done
  [ "$(cat /sys/block/$2/queue/discard_max_bytes)" = 0 ] || load $1 discard $2
}
few_loads() { for kind in random buffered flush; do load $1 $kind $2; done; }

nvme=$(by_serial nvme) shared=$(by_serial shared) virtio=$(by_serial virtio) scsi=$(by_serial scsi) scsi2=$(by_serial scsi2)
results=$(by_serial results)
twice=$(by_serial twice)
say "kernel $(uname -r), mode $mode: nvme=$nvme shared=$shared virtio=$virtio scsi=$scsi scsi2=$scsi2 twice=$(echo $twice) results=$results"
uname -r >$out/release

finish() {
  dmesg | grep -E 'BUG|Oops|WARNING|BPF|int3|Out of memory' >$out/dmesg
  tar -C $out -cf /dev/$results .
  sync
  say "done"
  poweroff -f
}
if [ "$mode" = serve ]; then
  . /serve.sh
  finish
fi

# Devices that the loads need, made before the recording begins: it looks for them at once.
if [ "$mode" != short ]; then
  dd if=/dev/zero of=/tmp/loop.img bs=1M count=64 2>/dev/null
  losetup /dev/loop0 /tmp/loop.img
  [ -e /sys/block/zram0 ] && echo 64M >/sys/block/zram0/disksize
fi

say "$(uptime_s) recording starts"
iolens record -q -o $out/all.iolens --source ebpf >$out/record.log 2>&1 &
recorder=$!
for i in $(seq 3000); do
  [ -e $out/all.iolens/meta.json ] && break
  kill -0 $recorder 2>/dev/null || break
  sleep 0.2
done
sleep 2
say "$(uptime_s) recording"

devices() {
  all_loads nvme $nvme
  all_loads virtio $virtio
  for s in none mq-deadline bfq kyber; do
    echo $s >/sys/block/$scsi/queue/scheduler 2>/dev/null && grep -q "\[$s\]" /sys/block/$scsi/queue/scheduler && all_loads scsi-$s $scsi
  done
  all_loads loop loop0
  [ -e /dev/nullb0 ] && { few_loads null_blk nullb0; load null_blk jobs8 nullb0; }
  [ -e /dev/ram0 ] && few_loads brd ram0
  [ -e /dev/zram0 ] && few_loads zram zram0
}
# A logical volume on the array $1.
volume_on() {
  for command in "pvcreate -qq -ff -y /dev/$1" "vgcreate -qq group /dev/$1" "lvcreate -qq -y -Wn -Zn -l 100%FREE -n volume group"; do
    lvm $command || return 0
  done
  few_loads lvm-on-$1 mapper/group-volume
  lvm vgchange -qq -an group
}
# A file system on the encrypted device that is there.
file_system() {
  mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/crypt && mount -t ext4 /dev/mapper/crypt /mnt &&
    dd if=/dev/zero of=/mnt/file bs=1M count=16 && sync && for kind in random buffered flush; do
      phase ext4-on-crypt $kind /usr/bin/load $kind /mnt/file
    done
  umount /mnt
}
# md writes its superblock some time after the last write, which must not fall on a phase's edge.
quiet() { sleep 1; echo 0 >/sys/block/$1/md/safe_mode_delay; }
stacks() {
  [ -n "$shared" ] && few_loads nvme-multipath $shared
  dmsetup create --noudevsync linear --table "0 131072 linear /dev/$scsi 2048" && dmsetup mknodes && few_loads dm-linear mapper/linear
  dmsetup remove --noudevsync linear
  dmsetup create --noudevsync striped --table "0 131072 striped 2 128 /dev/$scsi 0 /dev/$scsi2 0" && dmsetup mknodes &&
    few_loads dm-striped mapper/striped && load dm-striped sizes mapper/striped
  dmsetup remove --noudevsync striped
  key=$(for i in $(seq 16); do printf 0123; done)
  dmsetup create --noudevsync crypt --table "0 131072 crypt aes-xts-plain64 $key 0 /dev/$scsi 0" && dmsetup mknodes && few_loads dm-crypt mapper/crypt && file_system
  dmsetup remove --noudevsync crypt
  set -- $twice
  if [ $# = 2 ]; then
    dmsetup create --noudevsync multi --table "0 122880 multipath 0 0 1 1 round-robin 0 2 1 /dev/$1 1 /dev/$2 1" && dmsetup mknodes && few_loads dm-multipath mapper/multi
    dmsetup remove --noudevsync multi
  fi
  for level in 0 1; do
    mdadm --create /dev/md$level --run --assume-clean --level=$level --raid-devices=2 --metadata=1.2 /dev/$scsi /dev/$scsi2 >$out/md$level.log 2>&1 &&
      quiet md$level && few_loads md-raid$level md$level && { [ $level = 0 ] || volume_on md1; }
    mdadm --stop /dev/md$level >>$out/md$level.log 2>&1
  done
}
# raid5 that has one member which answers 20 ms late
slow_member() {
  dmsetup create --noudevsync late --table "0 131072 delay /dev/$scsi2 0 20" && dmsetup mknodes &&
    mdadm --create /dev/md5 --run --assume-clean --level=5 --raid-devices=3 --chunk=64 --metadata=1.2 \
      /dev/$scsi /dev/mapper/late /dev/$virtio >$out/md5.log 2>&1 && quiet md5 && load md-raid5 random md5 && load md-raid5 jobs8 md5
  mdadm --stop /dev/md5 >>$out/md5.log 2>&1
  dmsetup remove --noudevsync late
}

# Files of each file system: what is recorded of them is compared with what the load did (origins.py).
files() {
  for kind in ext4 xfs f2fs; do
    case ",$only," in ,, | *",files-$kind,"*) ;; *) continue ;; esac
    [ -x /usr/sbin/mkfs.$kind ] && modprobe $kind 2>/dev/null
    case $kind in
      ext4) mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/$scsi2 ;;
      xfs) mkfs.xfs -q -f -K --unsupported -m bigtime=0,inobtcount=0,reflink=0 /dev/$scsi2 ;;
      f2fs) mkfs.f2fs -q -f -t 0 /dev/$scsi2 ;;
    esac || continue
    mount -t $kind /dev/$scsi2 /mnt || continue
    dd if=/dev/zero of=/mnt/file bs=1M count=16 2>/dev/null
    sync
    for load in random large readahead flush uring; do phase files-$kind $load /usr/bin/load $load /mnt/file; done
    echo "files-$kind $(stat -c %i /mnt/file) $(cat /sys/block/$scsi2/dev)" >>$out/inodes
    umount /mnt
  done
}

# In the background while phase $1 lasts: what happens to the machine.
beside() { rm -f /tmp/over; "$@" & side=$!; }
over() { touch /tmp/over; wait $side; }
cpus_come_and_go() {
  while [ ! -e /tmp/over ]; do
    echo 0 >/sys/devices/system/cpu/cpu1/online; sleep 0.3
    echo 1 >/sys/devices/system/cpu/cpu1/online; sleep 0.3
  done
}
clock_jumps() { while [ ! -e /tmp/over ]; do date -s @$(($(date +%s) + 3600)); sleep 0.2; date -s @$(($(date +%s) - 3600)); sleep 0.2; done; }
# kernels.py reads the console, and stops the whole guest.
is_paused() { echo "guest: stop me"; }
machine() {
  phase many-cpus "$(cat /sys/devices/system/cpu/possible | tr -d '\n')" /usr/bin/load jobs8 /dev/$virtio
  beside clock_jumps; phase clock jobs8 /usr/bin/load jobs8 /dev/$virtio; over
  phase memory pressure /usr/bin/load pressure /dev/$virtio
  beside is_paused; phase paused jobs8 /usr/bin/load long /dev/$virtio; over
  beside cpus_come_and_go; phase hotplug jobs8 /usr/bin/load jobs8 /dev/$virtio; over
}

if [ -e $out/all.iolens/meta.json ]; then
  if [ "$mode" = short ]; then load virtio short $virtio; elif [ "$mode" = devices ]; then devices; else devices; { files; stacks; slow_member; machine; } 2>$out/stacks.log; fi
  kill -INT $recorder
  wait $recorder
  say "recorder: exit $?"
fi
if [ "$mode" != short ]; then
  iolens record -q --files -o $out/files.iolens -- dd if=/dev/zero of=/tmp/file bs=4k count=100 >$out/files.log 2>&1
  say "files: exit $?"
  iolens doctor >$out/doctor 2>&1
  [ -e $out/all.iolens/meta.json ] || iolens record --for 2s -o $out/auto.iolens >$out/auto.log 2>&1
fi
cat $out/record.log
finish
