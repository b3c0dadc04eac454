// The line above a chart: its title, and what its colours mean.

export interface Entry {
  name: string;
  colour: string;
  /** Whether the mark is flat, as for an episode. */
  isFlat?: boolean;
}

export interface Heading {
  title: string;
  entries: readonly Entry[];
}

const TITLE_GAP = 14;
const ENTRY_GAP = 11;
/** Distance from an entry's mark to its name. */
const NAME_AT = { square: 13, flat: 18 };

/** The positions of a heading's entries: left edge, name and right edge, relative to the heading. */
export function placesOf({ title, entries }: Heading, measure: (text: string) => number): { left: number; name: number; end: number }[] {
  let left = title === "" ? 0 : measure(title) + TITLE_GAP;
  return entries.map((entry) => {
    const name = left + (entry.isFlat ? NAME_AT.flat : NAME_AT.square);
    const place = { left, name, end: name + measure(entry.name) };
    left = place.end + ENTRY_GAP;
    return place;
  });
}

/** The first of the headings, which get shorter, that fits; if none does, the last one without the entries that do not fit. */
export function fitting(headings: readonly Heading[], room: number, measure: (text: string) => number): Heading {
  const last = headings.at(-1) ?? { title: "", entries: [] };
  const fits = (heading: Heading) => placesOf(heading, measure).every(({ end }) => end <= room);
  const places = placesOf(last, measure);
  return headings.find(fits) ?? { ...last, entries: last.entries.filter((_, i) => (places[i]?.end ?? 0) <= room) };
}
