/** Queries to the server, or to the data inside a report file. Errors are turned into sentences for the reader. */

export class Problem extends Error {
  constructor(message: string, readonly status: number | null) {
    super(message);
  }

  /** Whether a retry may succeed: the server is busy or does not answer. */
  get passes(): boolean {
    return this.status === null || this.status >= 500;
  }

  /**
   * Whether the query itself is invalid, for example because of an unknown device. In a live view, a retry may still
   * succeed later.
   */
  get isRefused(): boolean {
    return this.status === 422 && !this.message.includes("anything of this time");
  }
}

export type Query = Record<string, string | number | null | undefined>;

/** The source of answers: a server, or the file itself. */
export interface Source {
  ask<T>(path: string, query: Query, signal: AbortSignal): Promise<T>;
}

let source: Source = { ask: askServer };

/** Sets the source of all further answers. */
export function answerFrom(other: Source): void {
  source = other;
}

/** An answer of the API. `signal` cancels the request, which then throws an `AbortError`. */
export function ask<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  return source.ask(path, query, signal);
}

async function askServer<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== null && value !== undefined) params.set(name, String(value));
  let response: Response;
  try {
    response = await fetch(`api/v1/${path}?${params.toString()}`, { signal, headers: { accept: "application/json" } });
  } catch (e) {
    if (signal.aborted) throw e;
    throw new Problem("The server does not answer.", null);
  }
  const body = await response.text();
  let document: unknown;
  try {
    document = JSON.parse(body);
  } catch {
    throw new Problem(response.ok ? "The server's answer cannot be read." : `The server answered with status ${response.status}.`, response.status);
  }
  if (response.ok) return document as T;
  const { detail } = document as { detail?: unknown };
  throw new Problem(typeof detail === "string" && detail !== "" ? sentence(detail) : `The server answered with status ${response.status}.`, response.status);
}

/** Times in the query string. */
const PARAMETERS = /from=(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,3})?\d*Z&to=(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,3})?\d*Z/;

/** Adds a full stop and, unless the text starts with a name ("sda:", "/srv/rec:"), a capital. Formats times as the page does. */
export function sentence(text: string): string {
  // Short stretches are shown with milliseconds.
  const readable = text.replace(PARAMETERS, (_, day, from, fromMs = "", toDay, to, toMs = "") => {
    const isShort = day === toDay && Date.parse(`${day}T${to}Z`) - Date.parse(`${day}T${from}Z`) < 60_000;
    return `${day} ${from}${isShort ? fromMs : ""} to ${toDay} ${to}${isShort ? toMs : ""} UTC`;
  });
  const isWord = /^[a-z]+(?:[ ,.]|$)/.test(readable);
  const first = isWord ? readable.charAt(0).toUpperCase() + readable.slice(1) : readable;
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

export const aborted = (e: unknown): boolean => e instanceof DOMException && e.name === "AbortError";
