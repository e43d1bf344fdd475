// A map whose copies share their entries: many copies of a large map that grows need little memory.
//
// Entries are in layers, which never change, and a top layer. A copy has the same layers and an empty top. A layer that
// is not much larger than the one above it is merged with it, so that there are few layers, and each entry is copied
// only a few times.

export class LayeredMap<Key, Value> {
  /** Oldest first. */
  #layers: ReadonlyArray<ReadonlyMap<Key, Value>> = [];
  #top = new Map<Key, Value>();

  get(key: Key): Value | undefined {
    const value = this.#top.get(key);
    if (value !== undefined) return value;
    for (let index = this.#layers.length - 1; index >= 0; index -= 1) {
      const value = this.#layers[index]?.get(key);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(key: Key, value: Value): void {
    this.#top.set(key, value);
  }

  /** The entries, in the order in which their keys were first set. */
  *[Symbol.iterator](): Generator<[Key, Value]> {
    const layers = [...this.#layers, this.#top];
    for (const [index, layer] of layers.entries()) {
      const older = layers.slice(0, index);
      for (const [key, value] of layer) {
        if (!older.some((one) => one.has(key))) yield [key, this.get(key) ?? value];
      }
    }
  }

  *values(): Generator<Value> {
    for (const [, value] of this) yield value;
  }

  /** A copy that further changes of this map do not change. */
  copy(): LayeredMap<Key, Value> {
    this.#freeze();
    const copy = new LayeredMap<Key, Value>();
    copy.#layers = this.#layers;
    return copy;
  }

  /** Makes a layer of the top. */
  #freeze(): void {
    if (this.#top.size === 0) return;
    const layers = [...this.#layers];
    let layer: ReadonlyMap<Key, Value> = this.#top;
    for (let below = layers.at(-1); below !== undefined && below.size <= 2 * layer.size; below = layers.at(-1)) {
      layers.pop();
      layer = new Map([...below, ...layer]);
    }
    this.#layers = [...layers, layer];
    this.#top = new Map();
  }
}
