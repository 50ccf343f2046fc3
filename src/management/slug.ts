const SUFFIX_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz";

/** The limit that a PATCH has: lower case turns some letters into several, so a slug could be longer than its name. */
const MAX_LENGTH = 255;

/**
 * Makes a slug: lower case; runs of anything but a–z and 0–9 become "-", trimmed; `project-` + 6 random characters when nothing is left.
 */
export function slugOf(name: string, random: () => number): string {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, MAX_LENGTH)
    .replace(/-$/, "");
  if (slug !== "") return slug;
  const characters = Array.from({ length: 6 }, () =>
    SUFFIX_ALPHABET.charAt(Math.floor(random() * SUFFIX_ALPHABET.length)),
  );
  return `project-${characters.join("")}`;
}
