const KIB = 1024;
const MIB = 1024 * KIB;

/** How much is kept of a receiver's answer, or of the reason why there is none, as UTF-8. */
export const MAX_RESPONSE_BODY_BYTES = 16 * KIB;
export const MAX_RESPONSE_BODY_TEXT = `${MAX_RESPONSE_BODY_BYTES / KIB} KiB`;

/** How many bytes of an event's response bodies are answered whole, the newest first. */
export const MAX_WHOLE_BODY_BYTES = 4 * MIB;
export const MAX_WHOLE_BODY_TEXT = `${MAX_WHOLE_BODY_BYTES / MIB} MiB`;

/** How much is answered of an older body, before a last line that says so. */
export const CUT_BODY_CHARACTERS = 256;
export const CUT_BODY_MARK = `… [cut: only the newest ${MAX_WHOLE_BODY_TEXT} of response bodies are shown whole]`;
