/** What brokers say to a user whose ACLs do not allow something: neither which right is missing, nor for what. */
const NOT_AUTHORIZED = /authorization failed/i;
type Right = "Create" | "Alter" | "Read";

/** Returns whether brokers refused for want of a right. */
export function isNotAuthorized({ message }: Error): boolean {
  return NOT_AUTHORIZED.test(message);
}

/** Returns in words what the user is to be granted, as Kafka's ACLs call it. */
export function neededRight(right: Right, what: "topics" | "groups", prefix: string): string {
  return `this user needs the right ${right} for ${what} that begin with ${prefix}`;
}
