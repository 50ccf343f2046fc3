const SUFFIX_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz";

/** Lower case; runs of other than a–z and 0–9 become "-", trimmed; `project-` + 6 random characters when nothing is left. */
export function slugOf(name: string, random: () => number): string {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
  if (slug !== "") return slug;
  const characters = Array.from({ length: 6 }, () =>
    SUFFIX_ALPHABET.charAt(Math.floor(random() * SUFFIX_ALPHABET.length)),
  );
  return `project-${characters.join("")}`;
}
