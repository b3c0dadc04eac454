//! Explains why a file is not an importable log: the nearest known format, and what is missing.

use super::text::{has_word, seconds_ns, words};

/// What kind of file `head`, the beginning of a file, is from, if that is recognisable, and how to
/// proceed.
pub(super) fn explanation(head: &[u8]) -> Option<String> {
    let known: [(&[u8], &str); 7] = [
        (
            b"\xfd7zXZ\0",
            "it is compressed by xz: xz -dc FILE | iolens import - -o REC",
        ),
        (
            b"\x28\xb5\x2f\xfd",
            "it is compressed by zstd: zstd -dc FILE | iolens import - -o REC",
        ),
        (
            b"BZh",
            "it is compressed by bzip2: bzip2 -dc FILE | iolens import - -o REC",
        ),
        (
            b"PERFILE2",
            "it is perf's own data: perf script -i FILE | iolens import - -o REC",
        ),
        (
            b"\x17\x08\x44tracing",
            "it is trace-cmd's own data: trace-cmd report -i FILE | iolens import - -o REC",
        ),
        (
            b"\x96\xd5",
            "it is sysstat's own data: sadf -d FILE -- -d -u | iolens import - -o REC",
        ),
        (
            b"PAR1",
            "it is a Parquet file; iolens report reads the directory of a recording without import",
        ),
    ];
    if head.is_empty() {
        return Some("it is empty".to_owned());
    }
    if let Some((_, text)) = known.into_iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(text.to_owned());
    }
    head.split(|b| *b == b'\n').find_map(line)
}

/// The kind of file that a line indicates.
fn line(line: &[u8]) -> Option<String> {
    let all: Vec<&[u8]> = words(line).collect();
    let text = match *all.first()? {
        b"TIME(s)" | b"TIME(ms)" | b"TIME" => return of_bcc(&all),
        b"Filesystem:" | b"Filesystem" if line.ends_with(b"/s") => {
            "it is iostat -n of network file systems, which are no block devices: give iostat -x"
        }
        b"procs" | b"disk-" => "it is vmstat, which knows no device or no rates: give iostat -x",
        _ if has_word(&all, "KB/t") => {
            "it is iostat of a BSD or macOS without reads and writes apart: give iostat -x (FreeBSD)"
        }
        _ if has_word(&all, "kps") && has_word(&all, "serv") => {
            "it is iostat of Solaris without reads and writes apart: give iostat -x"
        }
        _ if is_fio_text(line) => {
            "it is fio's text; its JSON is read: fio --output-format=json --output=FILE"
        }
        b"pool" if has_word(&all, "alloc") && has_word(&all, "free") => {
            "it is zpool iostat, which knows pools and no block devices; the nearest log that is read is iostat -x of the pool's disks"
        }
        _ if has_word(&all, "count")
            && (has_word(&all, "usecs") || has_word(&all, "msecs") || has_word(&all, "nsecs")) =>
        {
            "it is a histogram of biolatency, without times; the nearest log that is read is biosnoop's, which has every I/O"
        }
        _ if line.starts_with(b"AAA,") => {
            "it is nmon's file; the nearest logs that are read are sar -d and iostat -x"
        }
        _ if has_word(&all, "PID")
            && (has_word(&all, "kB_rd/s") || has_word(&all, "%CPU") || has_word(&all, "%usr")) =>
        {
            "it is pidstat, which knows processes and no devices; the nearest logs that are read are iostat -x for devices and biosnoop for processes"
        }
        _ if has_word(&all, "PID") && has_word(&all, "Kbytes") && has_word(&all, "AVGms") => {
            "it is biotop, which knows sums per process; the nearest log that is read is biosnoop's, which has every I/O"
        }
        _ if line.starts_with(b"----") && contains(line, b"dsk/") => {
            "it is dstat, which knows no times of I/Os; the nearest log that is read is iostat -x"
        }
        _ if is_sadf_raw(line) => {
            "it is sadf -r, counters without their interval; the nearest that is read is sadf -d FILE -- -d"
        }
        [b'<', ..] if contains(line, b"sysstat") => {
            "it is sadf -x, XML; the nearest that is read is sadf -j"
        }
        _ if is_blkparse(&all) => {
            "it is the text of blkparse: give blktrace's binary files (NAME.blktrace.N)"
        }
        _ if is_trace(line) => {
            "it looks like a trace in CSV; no such format is read. The nearest are fio's logs (time in ms, value, 0 or 1 \
             for read or write, bytes) called JOB_lat.N.log, and tables with a heading (time r/s Kr/s us/r w/s Kw/s us/w)"
        }
        _ if is_event(&all) => {
            "it is a trace without block events: record block:block_rq_issue and block:block_rq_complete"
        }
        [b'{', ..] => {
            "it is JSON of neither iostat (\"sysstat\": {\"hosts\": ...}) nor fio (\"jobs\": [...]), nearest to these two"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// `job: (g=0): rw=randread, bs=...`, and `job: (groupid=0, jobs=1): err= 0: pid=...`.
fn is_fio_text(line: &[u8]) -> bool {
    contains(line, b": (g=") && contains(line, b"rw=") || contains(line, b": (groupid=")
}

/// `11:55:08 UTC; major; 254; minor; 0; DEV; vda; tps; 119950; ...`.
fn is_sadf_raw(line: &[u8]) -> bool {
    line.contains(&b';') && contains(line, b"; DEV; ") && contains(line, b"; tps; ")
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|w| w == part)
}

/// Tables of bcc and libbpf-tools begin with a time; one of these tools is about block I/O.
fn of_bcc(heading: &[&[u8]]) -> Option<String> {
    let name = if has_word(heading, "FILENAME") || has_word(heading, "FILE") {
        "fileslower or a tool like it"
    } else if has_word(heading, "ZONE") {
        "compactsnoop"
    } else if has_word(heading, "PAGES") {
        "drsnoop"
    } else if has_word(heading, "DISK") {
        "biosnoop in another version"
    } else {
        "another tool of its family"
    };
    let missing: Vec<&str> = super::biosnoop::REQUIRED
        .into_iter()
        .filter(|c| !has_word(heading, c))
        .collect();
    let missing = if missing.is_empty() {
        "TIME(s)".to_owned()
    } else {
        missing.join(", ")
    };
    Some(format!(
        "the nearest format is the table of biosnoop, which has {missing} too: this may be {name}"
    ))
}

/// `8,0 3 11 0.009507758 697 G W 223490 + 8 [kjournald]`.
fn is_blkparse(all: &[&[u8]]) -> bool {
    all.len() >= 7
        && all[0].contains(&b',')
        && all[..5].iter().all(|w| is_blkparse_number(w))
        && all[5].len() <= 2
        && all[5].is_ascii()
}

/// A number, a time, or the two numbers of a device.
fn is_blkparse_number(word: &[u8]) -> bool {
    word.iter()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b','))
}

/// Comma-separated rows of numbers, perhaps with a word or two for the operation and the host.
fn is_trace(line: &[u8]) -> bool {
    let cells: Vec<&[u8]> = line.split(|b| *b == b',').map(<[u8]>::trim_ascii).collect();
    cells.len() >= 4 && cells.iter().filter(|c| is_decimal(c)).count() >= 3
}

fn is_decimal(cell: &[u8]) -> bool {
    !cell.is_empty() && cell.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

/// `fio 1 [000] 10.5: sched:sched_switch: ...`.
fn is_event(all: &[&[u8]]) -> bool {
    all.windows(2)
        .take(8)
        .any(|w| is_event_time(w[0]) && w[1].ends_with(b":"))
}

/// `10.5:`.
fn is_event_time(word: &[u8]) -> bool {
    word.strip_suffix(b":")
        .is_some_and(|w| seconds_ns(w).is_some() && w.contains(&b'.'))
}

#[cfg(test)]
mod tests {
    use super::super::recognise::recognise;
    use super::*;

    #[test]
    fn the_nearest_known_format_is_named_with_what_is_missing() {
        for (text, named) in [
            ("", "empty"),
            (
                "TIME(s)  COMM           TID    D BYTES   LAT(ms) FILENAME\n0.1 a 1 R 5 0.1 x\n",
                "which has DISK, T, SECTOR too: this may be fileslower",
            ),
            (
                "TIME(s)  COMM  PID  LAT(ms) PAGES\n0.1 a 1 0.1 5\n",
                "drsnoop",
            ),
            (
                "TIME(s)  COMM  PID NODE ZONE ORDER MODE LAT(ms) STATUS\n",
                "compactsnoop",
            ),
            (
                "TIME(ms)     DISK ID        COMM             PID    LAT(ms)\n611 259 0 bash 4179 10\n",
                "SECTOR",
            ),
            (
                "Linux 2.6.32 (h) \t06/02/16\n\nFilesystem:  rBlk_nor/s wBlk_nor/s  wops/s\nnas:/v 0.00 0.00 1.0\n",
                "-n",
            ),
            (
                "      tty             ada0             cpu\n tin  tout  KB/t tps  MB/s  us ni sy in id\n",
                "BSD",
            ),
            (
                "w: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\nStarting 1 process\n",
                "fio --output-format=json",
            ),
            (
                "\nw: (groupid=0, jobs=1): err= 0: pid=1: Tue Nov 24 12:02:15 2026\n  read: IOPS=24.6k\n",
                "fio --output-format=json",
            ),
            (
                "              capacity     operations     bandwidth \npool        alloc   free   read  write   read  write\n                 ----------  -----  -----  -----  -----  -----  -----\ntank        1.2T    2T     10     20    1M    2M\n",
                "iostat -x of the pool's disks",
            ),
            (
                "Tracing block device I/O... Hit Ctrl-C to end.\n\n     usecs               : count     distribution\n         0 -> 1          : 0        |    |\n",
                "biosnoop",
            ),
            (
                "AAA,progname,nmon\nAAA,command,nmon -f -s 1\nAAA,version,16n\n",
                "sar -d and iostat -x",
            ),
            (
                "Linux 6.1.0 (h) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n                 11:55:04      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n                 11:55:05        0         1      0.00      4.00      0.00       0  systemd\n",
                "pidstat",
            ),
            (
                "11:55:08 UTC; major; 254; minor; 0; DEV; vda; tps; 119950; 125553; rkB/s; 4050674; 4236578;\n",
                "sadf -d",
            ),
            (
                "  8,0    3       11     0.009507758   697  G   W 223490 + 8 [kjournald]\n",
                "blkparse",
            ),
            (
                "128166372003061629,web,0,Read,10905223168,8192,153\n",
                "CSV",
            ),
            (
                " fio 1 [000] 10.5: sched:sched_switch: a ==> b\n",
                "block:block_rq_issue",
            ),
            ("{\"kitchen\": 1}\n", "neither iostat"),
        ] {
            assert_eq!(recognise(text.as_bytes()), None, "{text}");
            let said = explanation(text.as_bytes()).unwrap_or_default();
            assert!(said.contains(named), "{text}: {said}");
        }
        let binary = b"\x96\xd5\x75\x21 host";
        let said = explanation(binary).unwrap_or_default();
        assert!(said.contains("sadf -d FILE"), "{said}");
        assert_eq!(explanation(b"Dear Sir,\nnothing.\n"), None);
    }
}
