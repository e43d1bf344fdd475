// Checks of options.

/** Throws a TypeError unless all options are known. The compiler ensures that `known` names every option. */
export function checkOptions<T extends object>(options: T | undefined, known: { readonly [K in keyof Required<T>]: true }, whose: string): void {
  for (const name of Object.keys(options ?? {})) {
    if (!Object.hasOwn(known, name)) throw new TypeError(`${whose} has no option ${JSON.stringify(name)}; the options are ${Object.keys(known).join(", ")}`);
  }
}
