#!/usr/bin/env bash
# Builds the packages: a .deb and a static tar.gz of the same binary, the files of a container image with it, and the
# wheel of the Python package; target/package/. None depends on a library of the target machine. ARCH=arm64 or amd64
# selects the architecture, whichever this machine has.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
CARGO_DEB_VERSION=3.8.0
out=$PWD/target/package
host=$(rustc -vV | sed -n 's/^host: //p')
case ${ARCH:-} in
  "") target=$host ;;
  amd64) target=x86_64-unknown-linux-gnu ;;
  arm64) target=aarch64-unknown-linux-gnu ;;
  *) echo "build.sh: ARCH=$ARCH: amd64 or arm64" >&2; exit 2 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

if ! cargo-deb --version 2>/dev/null | grep -qwF "$CARGO_DEB_VERSION"; then
  $CARGO install cargo-deb --version "$CARGO_DEB_VERSION" --locked --root target/tools
  PATH=$PWD/target/tools/bin:$PATH
fi

program=$(CARGO=$CARGO ci/static-build.sh ${ARCH:-} | tail -1)
# Manual pages and completions are from the same source, built for this machine.
pages=$program
if [ "$target" != "$host" ]; then
  $CARGO build --locked -p iolens
  pages=target/debug/iolens
fi

rm -rf "$out"
mkdir -p "$out/root"
share=$out/root/share
"$pages" generate man -o "$share/man/man1"
mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d" "$share/iolens"
"$pages" generate completions bash >"$share/bash-completion/completions/iolens"
"$pages" generate completions zsh >"$share/zsh/vendor-completions/_iolens"
"$pages" generate completions fish >"$share/fish/vendor_completions.d/iolens.fish"
# `iolens query` names it in its hint.
ci/wheel.sh target/venv-wheel "$share/iolens"
ls "$share"/iolens/iolens-*.whl >/dev/null || { echo "the packages carry the wheel, which could not be built" >&2; exit 1; }
find "$out/root/share/man" -name '*.1' -exec gzip -9n {} +
# The changes are in CHANGELOG.md; Debian requires a file of this form beside it.
date=$(git log -1 --format=%cD)
printf 'iolens (%s) unstable; urgency=medium\n\n  * New release.\n\n -- The iolens developers <maintainers@iolens.invalid>  %s\n' \
  "$version" "$date" >"$out/root/changelog"
cargo-deb deb --no-build --strip --target "$target" -p iolens --output "$out/"

name=iolens-$version-${target%%-*}-linux
tree=$out/$name
mkdir -p "$tree/bin" "$tree/etc" "$tree/lib/systemd/system"
cp "$program" "$tree/bin/"
cp -r "$out/root/share" "$tree/"
cp packaging/etc/iolens.toml "$tree/etc/"
cp packaging/systemd/iolens.service "$tree/lib/systemd/system/"
mkdir -p "$tree/share/iolens"
cp -r packaging/prometheus packaging/grafana packaging/kubernetes "$tree/share/iolens/"
mkdir "$tree/share/iolens/container"
cp packaging/container/Containerfile packaging/container/image.py "$tree/share/iolens/container/"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$tree/"
# The same input gives the same archive.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C "$out" -czf "$out/$name.tar.gz" "$name"
cp "$share"/iolens/iolens-*.whl "$out/"
rm -rf "$tree" "$out/root"
if command -v python3 >/dev/null; then
  packaging/container/image.py "$out/$name.tar.gz" "$out/${name%-linux}-image.tar.gz"
else
  echo "SKIP: the files of the container image: python3 is missing"
fi
ls -l "$out"
