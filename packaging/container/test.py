#!/usr/bin/env python3
"""Tries the container image and the DaemonSet as far as one machine can; needs root, podman (build) and runc (run).

    test.py target/package

The manifests, as they are and as kubectl's Kustomize makes them with all components, are held against the API's schema, their flags
against the program's help. The image is built from the Containerfile
and started by an OCI runtime with what the manifest says: user, capabilities, no new privileges, read-only root, seccomp, host
directories. As with containerd and CRI-O there are no ambient capabilities. It has to record real I/O and be healthy. What the
machine lacks is skipped with a message.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KUBERNETES = HERE.parent / "kubernetes"
# Whole, as of containers-common: conditions on capabilities are resolved here.
SECCOMP = Path("/usr/share/containers/seccomp.json")
LOAD = 8 << 20
BLOCK = 64 << 10
# The kernel occasionally hides an I/O's completion. An I/O that began before the device was watched is not lost.
HIDDEN, NO_LOSS = "unseen", "censored"


def skip(why: str) -> None:
    print(f"SKIP: container: {why}")
    sys.exit(0)


def run(*words: object, **options: Any) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"FAIL: container: {' '.join(map(str, words))}: {done.stderr or done.stdout}")
    return done.stdout


def check(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"FAIL: container: {what}")


def valid(text: str, what: str) -> dict[str, dict[str, Any]]:
    """The objects of a manifest by kind, validated against the API's schema, which lacks those of operators."""
    try:
        import kubernetes_validate
        import yaml
    except ImportError:
        skip("kubernetes-validate and pyyaml are missing: run it with the environment of make container-test")
    documents = list(yaml.safe_load_all(text))
    known = [document for document in documents if "monitoring.coreos.com" not in document["apiVersion"]]
    for document in known:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    print(f"{what}: {len(known)} objects are valid for Kubernetes {kubernetes_validate.latest_version()}")
    return {document["kind"]: document for document in documents}


def load_manifest() -> dict[str, dict[str, Any]]:
    """The objects of the files without changes."""
    return valid("\n---\n".join((KUBERNETES / name).read_text() for name in ("daemonset.yaml", "priority.yaml")), "manifest")


def check_kustomize(work: Path, program: Path) -> None:
    """The base, and an overlay as a user writes it, with every component, in both orders."""
    if shutil.which("kubectl") is None:
        print("SKIP: container: kubectl is missing: no Kustomize")
        return
    components = sorted(p.parent.name for p in KUBERNETES.glob("*/kustomization.yaml"))
    overlays = []
    for name, order in (("overlay", components), ("overlay, reversed", components[::-1])):
        overlay = work / name
        overlay.mkdir()
        shutil.copytree(KUBERNETES, overlay / "base")
        lines = ["resources: [base]", f"components: [{', '.join(f'base/{component}' for component in order)}]"]
        (overlay / "kustomization.yaml").write_text("\n".join(lines))
        overlays.append(overlay)
    check_objects(program, overlays[0] / "base")
    containers = []
    for overlay in overlays:
        pod, container, objects = check_objects(program, overlay)
        check_components(pod, container, objects)
        containers.append(container)
    for container in containers:
        container["args"].sort()
        container["volumeMounts"].sort(key=lambda mount: mount["name"])
    first, second = containers
    check(first == second, "the order of the components changes what the container is")
    print(f"Kustomize: with {', '.join(components)}, in either order, the objects fit each other")


def check_objects(program: Path, directory: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """The pod, its container and all objects that Kustomize generates from a directory."""
    objects = valid(run("kubectl", "kustomize", directory), f"Kustomize ({directory.name})")
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    container = check_pod(pod, program)
    check(re.search("@sha256:[0-9a-f]{64}$", container["image"]) is not None, f"{container['image']} is no digest")
    check(pod["priorityClassName"] == objects["PriorityClass"]["metadata"]["name"], "there is no such priority class")
    return pod, container, objects


def check_components(pod: dict[str, Any], container: dict[str, Any], objects: dict[str, dict[str, Any]]) -> None:
    """Whether the parts that the components add are consistent."""
    monitor = objects["PodMonitor"]["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    labels = objects["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    check(monitor["selector"]["matchLabels"].items() <= labels.items(), "the PodMonitor chooses other pods")
    check(endpoint["port"] in {port["name"] for port in container["ports"]}, "the PodMonitor scrapes another port")
    secrets = {v["name"]: v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v}
    (mount,) = (m["mountPath"] for m in container["volumeMounts"] if m["name"] in secrets)
    given = endpoint["authorization"]["credentials"]
    check(secrets["token"] == given["name"], "the PodMonitor shows another token")
    check(f"--token-file={mount}/{given['key']}" in container["args"], "the token is read elsewhere")
    (ship,) = (word.split("=", 1)[1] for word in container["args"] if word.startswith("--ship="))
    check(ship.startswith("s3://"), f"--ship={ship}")


def check_pod(pod: dict[str, Any], program: Path) -> dict[str, Any]:
    """Rules that no schema checks: mounts have volumes, ports are those that are probed, flags exist. Returns the container."""
    volumes = {volume["name"] for volume in pod["volumes"]}
    (container,) = pod["containers"]
    for each in [*pod["initContainers"], container]:
        check({m["name"] for m in each["volumeMounts"]} <= volumes, f"{each['name']} mounts a volume that there is not")
    version = run(program, "--version").split()[-1]
    check(container["image"].endswith(f"/iolens:{version}") or "/iolens@" in container["image"], f"the image is {container['image']}, the program {version}")
    helped = run(program, container["args"][0], "--help")
    for word in container["args"][1:]:
        flag = word.split("=")[0]
        check(re.search(rf"(?<![\w-]){flag}(?![\w-])", helped) is not None, f"{flag} is no flag of iolens {container['args'][0]}")
    listen = next(w.split("=")[1] for w in container["args"] if w.startswith("--listen="))
    (port,) = container["ports"]
    check(listen == f"{port.get('hostIP', '0.0.0.0')}:{port['containerPort']}", "the port is not the one of --listen")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        target = container[probe].get("httpGet") or container[probe]["tcpSocket"]
        check((target.get("host"), target["port"]) == (port.get("hostIP"), port["name"]), f"{probe} asks elsewhere")
    print(f"manifest: flags and probes are the program's; it listens on {listen}")
    return container


def build(work: Path, archive: Path) -> Path:
    """Build the image; returns its root file system."""
    context = work / "context"
    context.mkdir()
    shutil.copy(HERE / "Containerfile", context)
    image = context / archive.name.replace("-linux.tar.gz", "-image.tar.gz")
    run(sys.executable, HERE / "image.py", archive, image)
    (work / "policy.json").write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
    podman = ["podman", "--root", work / "store", "--runroot", work / "run", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
    run(*podman, "build", "--signature-policy", work / "policy.json", "-t", "iolens:test", context)
    config = json.loads(run(*podman, "image", "inspect", "iolens:test"))[0]["Config"]
    check(config["User"] == "65532:65532" and config["Entrypoint"] == ["/usr/bin/iolens"], f"the image's configuration is {config}")
    # Copied, because the image is unmounted with its store.
    root = work / "rootfs"
    mounted = run(*podman, "image", "mount", "iolens:test").strip()
    run("cp", "-a", mounted, root)
    run(*podman, "image", "umount", "iolens:test")
    with tarfile.open(image) as packed:
        for member in packed.getmembers():
            check((root / member.name).exists(), f"{member.name} of the archive is not in the image")
    check(config["Cmd"][0] == "serve" and (root / config["Entrypoint"][0].lstrip("/")).is_file(), "the image has no such program")
    print(f"image: {sum(f.stat().st_size for f in root.rglob('*') if f.is_file()) >> 20} MiB, {run('getcap', root / 'usr/bin/iolens').strip()}")
    return root


def seccomp(capabilities: set[str]) -> dict[str, Any] | None:
    """The runtimes' default profile for a container with these capabilities, as containerd 1.7 and Docker 23 have it.

    The profile of containers-common (podman, CRI-O) allows `bpf` and `perf_event_open` to CAP_SYS_ADMIN only.
    """
    if not SECCOMP.is_file():
        print(f"SKIP: container: {SECCOMP} is missing: no seccomp profile")
        return None
    profile = json.loads(SECCOMP.read_text())

    def holds(rule: dict[str, Any]) -> bool:
        only, never = rule.get("includes") or {}, rule.get("excludes") or {}
        wanted = set(only.get("caps") or [])
        return (not wanted or bool(wanted & capabilities)) and not set(never.get("caps") or []) & capabilities and (
            "amd64" in (only.get("arches") or ["amd64"]) and "amd64" not in (never.get("arches") or [])
        )

    gated = {"bpf": "CAP_BPF", "perf_event_open": "CAP_PERFMON"}
    rules = []
    for rule in filter(holds, profile["syscalls"]):
        names = [name for name in rule["names"] if name not in gated]
        rules.append({k: rule[k] for k in ("action", "args", "errnoRet") if rule.get(k)} | {"names": names})
    allowed = [name for name, capability in gated.items() if capability in capabilities]
    rules = [{"names": allowed, "action": "SCMP_ACT_ALLOW"}, *(rule for rule in rules if rule["names"])]
    return {"defaultAction": profile["defaultAction"], "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


def bundle(work: Path, pod: dict[str, Any], container: dict[str, Any], recordings: Path) -> None:
    """`config.json` of an OCI bundle, from the manifest."""
    context = container["securityContext"]
    check(context["capabilities"]["drop"] == ["ALL"], "some of the runtime's usual capabilities are kept")
    capabilities = {f"CAP_{name}" for name in context["capabilities"]["add"]}
    held = sorted(capabilities)
    # Directories that the node may lack are created here, not on this machine.
    made = {v["name"]: v["hostPath"]["type"] == "DirectoryOrCreate" for v in pod["volumes"]}
    paths = {v["name"]: f"{work / 'node' if made[v['name']] else ''}{v['hostPath']['path']}" for v in pod["volumes"]}
    paths["recordings"] = str(recordings)
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    ]
    for m in container["volumeMounts"]:
        Path(paths[m["name"]]).mkdir(parents=True, exist_ok=True)
        options = ["rbind", "rslave" if m.get("mountPropagation") else "rprivate", "ro" if m.get("readOnly") else "rw"]
        mounts.append({"destination": m["mountPath"], "type": "bind", "source": paths[m["name"]], "options": options})
    shared = {"network": pod.get("hostNetwork"), "uts": pod.get("hostNetwork"), "pid": pod.get("hostPID")}
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
            "args": ["/usr/bin/iolens", *container["args"]],
            "env": ["PATH=/usr/bin"],
            "cwd": "/",
            "capabilities": {"bounding": held, "effective": held, "permitted": held, "inheritable": [], "ambient": []},
            "noNewPrivileges": not context["allowPrivilegeEscalation"],
        },
        "root": {"path": str(work / "rootfs"), "readonly": context["readOnlyRootFilesystem"]},
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": t} for t in ("mount", "ipc", "uts", "network", "pid") if not shared.get(t)],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            "seccomp": seccomp(capabilities),
        },
    }
    if config["linux"]["seccomp"] is None:
        del config["linux"]["seccomp"]
    (work / "config.json").write_text(json.dumps(config))


def record(work: Path, container: dict[str, Any], recordings: Path, disk: Path) -> None:
    """Start the container, write to the disk, query it, stop it."""
    listen = next(w.split("=")[1] for w in container["args"] if w.startswith("--listen="))
    runc = ["runc", "--root", str(work / "runc")]
    with (work / "log").open("wb") as log:
        started = subprocess.Popen([*runc, "run", "--bundle", str(work), "iolens-test"], stdout=log, stderr=log)
    try:
        status = None
        for _ in range(100):
            if started.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://{listen}/healthz", timeout=2) as answer:
                    status = json.load(answer)
                    break
            except OSError:
                time.sleep(0.2)
        check(status is not None, f"it does not answer: {(work / 'log').read_text()}")
        pid = json.loads(run(*runc, "state", "iolens-test"))["pid"]
        kept = {k: v.strip() for k, v in (line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())}
        check(kept["Uid"].split()[0] == str(container["securityContext"]["runAsUser"]), f"it runs as {kept['Uid']}")
        print(f"container: healthy={status['healthy']}, user {kept['Uid'].split()[0]}, CapEff {kept['CapEff']}, NoNewPrivs {kept['NoNewPrivs']}")
        run("dd", "if=/dev/zero", f"of={disk}", f"bs={BLOCK}", f"count={LOAD // BLOCK}", "oflag=direct", "conv=fsync")
        time.sleep(2)
        run(*runc, "kill", "iolens-test", "TERM")
        started.wait(60)
    finally:
        subprocess.run([*runc, "delete", "--force", "iolens-test"], capture_output=True, check=False)
    check(started.returncode == 0, f"it ended with {started.returncode}: {(work / 'log').read_text()}")
    print((work / "log").read_text().strip())


def free_port() -> int:
    """A free port of loopback, because the manifest's may be in use on this machine."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ask(program: Path, recordings: Path, disk: Path) -> None:
    """Whether the recording has the written data, with process and control group."""
    report = json.loads(run(program, "report", recordings, "--at", "now", "--json"))
    (device,) = (d for d in report["devices"] if d["name"] == disk.name)
    losses = {loss["reason"]: loss["ios"] for loss in report["recording"]["losses"] if loss["reason"] != NO_LOSS}
    hidden = losses.pop(HIDDEN, 0)
    check(not losses, f"I/Os were lost: {losses}")
    known = device["write"]["bytes"]
    check(known + hidden * BLOCK >= LOAD, f"{LOAD} bytes were written, the report knows {known}, and the kernel hid {hidden} I/Os")
    groups = run(program, "zoom", recordings, "--at", "now", "--by", "cgroup", "--step", "1m", "--format", "csv")
    names = {line.split(",")[1] for line in groups.splitlines()[1:]}
    check(any(name.startswith("/") for name in names), f"no control group has its name: {names}")
    processes = run(program, "zoom", recordings, "--at", "now", "--by", "process", "--step", "1m", "--format", "csv")
    check("dd[" in processes or ",dd" in processes, "the process that wrote is not named")
    print(f"container: {known} bytes written to {disk.name}, {hidden} I/Os hidden by the kernel, none lost; control groups {sorted(names)}")


def main() -> None:
    archives = sorted(Path(sys.argv[1] if len(sys.argv) > 1 else "target/package").glob("iolens-*-linux.tar.gz"))
    if not archives:
        skip("there is no archive: make package")
    work = Path(tempfile.mkdtemp(prefix="iolens-container-", dir="/var/tmp"))
    loop = None
    try:
        with tarfile.open(archives[-1]) as archive:
            archive.extractall(work / "archive", filter="data")
        program = next((work / "archive").glob("*/bin/iolens"))
        pod = load_manifest()["DaemonSet"]["spec"]["template"]["spec"]
        container = check_pod(pod, program)
        check_kustomize(work, program)
        for tool in ("podman", "runc", "getcap", "losetup"):
            if shutil.which(tool) is None or os.geteuid() != 0:
                skip(f"{tool}, as root, is needed to build the image and to run it")
        container["args"] = [re.sub(r"^(--listen=.*):\d+$", rf"\g<1>:{free_port()}", word) for word in container["args"]]
        build(work, archives[-1])
        recordings = work / "recordings"
        recordings.mkdir()
        os.chown(recordings, *(container["securityContext"][k] for k in ("runAsUser", "runAsGroup")))
        bundle(work, pod, container, recordings)
        (work / "disk").write_bytes(b"")
        os.truncate(work / "disk", 4 * LOAD)
        loop = Path(run("losetup", "--find", "--show", work / "disk").strip())
        record(work, container, recordings, loop)
        ask(program, recordings, loop)
    finally:
        if loop:
            subprocess.run(["losetup", "--detach", str(loop)], check=False)
        shutil.rmtree(work, ignore_errors=True)
    print("container-test: built, started as the manifest says, recorded, asked")


if __name__ == "__main__":
    main()
