// The address of a report's view (`#t=…&d=…`): time and device on screen, so that the view can be shared.

import type { Store } from "./store";
import type { Range } from "./zoom";

/** The view as encoded in the page's address, so that a reader can share it: `#t=37.325-39.575&d=nvme0n1`. */
export function write(range: Range, whole: boolean, scope: string | undefined): string {
  const parts = [
    whole ? "" : `t=${range.from.toFixed(3)}-${range.to.toFixed(3)}`,
    scope === undefined ? "" : `d=${encodeURIComponent(scope)}`,
  ];
  return parts.filter(Boolean).join("&");
}

/** The address with only the device, including the `#`; empty for the first device. */
export function scopeOf(scope: string | undefined): string {
  return scope === undefined ? "" : `#d=${encodeURIComponent(scope)}`;
}

/** The view in an address; invalid parts are ignored. */
export function read(hash: string): { range: Range | null; scope: string | null } {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const [from, to] = (params.get("t") ?? "").split("-").map(Number);
  const valid = from !== undefined && to !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from;
  return { range: valid ? { from, to } : null, scope: params.get("d") };
}

/** Keeps the address and the view synchronised. */
export function follow(store: Store): void {
  const asked = read(location.hash);
  const scope = store.data.scopes.findIndex((s) => s.label === asked.scope);
  if (scope > 0) store.chooseScope(scope);
  if (asked.range) store.look(asked.range);
  let timer = 0;
  store.listen(() => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      const hash = write(store.range, store.whole, store.scopeIndex > 0 ? store.scope?.label : undefined);
      try {
        history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
      } catch {
        // Some browsers refuse this for files; the view works without it.
      }
    }, 300);
  });
}
