/** Keeps what was made for a label's value: finding a metric's child by its labels costs more than counting. */
export function makeChildren<Child>(make: (value: string) => Child): (value: string) => Child {
  const children = new Map<string, Child>();
  return (value) => {
    let child = children.get(value);
    if (child === undefined) {
      child = make(value);
      children.set(value, child);
    }
    return child;
  };
}
