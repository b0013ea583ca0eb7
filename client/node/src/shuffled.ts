/** Source of random numbers from 0 to below 1: `Math.random`, or that of a test. */
export type Random = () => number;

/** Returns the same in a random order, each order as likely as any other. */
export function shuffled<T>(of: readonly T[], random: Random): T[] {
  const items = [...of];
  for (let left = items.length; left > 1; left--) {
    const [drawn] = items.splice(Math.floor(random() * left), 1);
    items.push(drawn as T);
  }
  return items;
}
