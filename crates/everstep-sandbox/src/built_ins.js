// Bounds the built-ins that never check the deadline of a script: a call that would run for minutes is refused.
//
// 1. Methods of arrays that visit every index accept arrays and plain objects of up to 10 million items. The length is
//    read without a call of the script's code, and the built-in reads it again before it calls any: it cannot differ.
// 2. `concat`, `flat` and `flatMap` read the lengths of other arrays as well, so they are written in JavaScript, which
//    checks the deadline.
// 3. Sorting without a function compares texts, which may be long: it calls a function, which checks the deadline.
// 4. A search for a text compares at most 1,000 million characters.
// 5. The library checks the deadline after thousands of calls, each of which may be long: a long one checks it first.
(function (isOver) {
  'use strict';
  const LENGTH_MAX = 10_000_000;
  const COMPARISONS_MAX = 1_000_000_000;
  const LENGTH_LONG = 10_000;
  const COMPARISONS_LONG = 100_000;
  const { apply, getPrototypeOf, getOwnPropertyDescriptor } = Reflect;
  const { defineProperty, hasOwn } = Object;
  const { isArray } = Array;
  const { trunc } = Math;
  const arrays = Array.prototype;
  const texts = String.prototype;
  const text = String;
  const spreadable = Symbol.isConcatSpreadable;
  const NativeProxy = Proxy;
  const proxies = new WeakSet();
  const { add, has } = WeakSet.prototype;

  // A proxy can state another length at each reading, so proxies are remembered.
  const remember = (proxy) => (apply(add, proxies, [proxy]), proxy);
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const isProxy = (value) => isObject(value) && apply(has, proxies, [value]);
  const revocable = NativeProxy.revocable;
  const BoundedProxy = function Proxy(target, handler) {
    if (new.target === undefined) throw new TypeError('must be called with new');
    return remember(new NativeProxy(target, handler));
  };
  const methods = {
    revocable(target, handler) {
      const made = revocable(target, handler);
      remember(made.proxy);
      return made;
    },
  };
  defineProperty(BoundedProxy, 'prototype', { value: undefined });
  defineProperty(BoundedProxy, 'length', { value: 2 });
  defineProperty(BoundedProxy, 'revocable', { value: methods.revocable, writable: true, configurable: true });
  defineProperty(globalThis, 'Proxy', { value: BoundedProxy, writable: true, configurable: true });

  const checkDeadline = () => {
    if (isOver()) throw new RangeError('the time limit of the script has passed');
  };
  const lengthOf = (value) => {
    if (typeof value === 'string' || isArray(value)) return value.length;
    const length = isObject(value) ? getOwnPropertyDescriptor(value, 'length')?.value : undefined;
    return typeof length === 'number' ? length : NaN;
  };
  const bounded = (value) => {
    const length = isProxy(value) ? NaN : lengthOf(value);
    if (length > LENGTH_MAX) throw new RangeError(`a list of ${length} items has more than ${LENGTH_MAX}`);
    if (length !== length) throw new TypeError('not an array, and not an object with a length of its own');
    if (length > LENGTH_LONG) checkDeadline();
    return value;
  };
  const replace = (object, name, method) => {
    const native = object[name];
    defineProperty(method, 'length', { value: native.length, configurable: true });
    defineProperty(object, name, { value: method, writable: true, configurable: true });
  };

  for (const name of [
    'copyWithin', 'fill', 'join', 'reverse', 'shift', 'slice', 'splice', 'toLocaleString', 'toReversed', 'toSpliced',
    'unshift', 'with',
  ]) {
    const native = arrays[name];
    replace(arrays, name, { [name](...values) { return apply(native, bounded(this), values); } }[name]);
  }

  const compareTexts = (one, other) => {
    const first = text(one);
    const second = text(other);
    return first < second ? -1 : first > second ? 1 : 0;
  };
  for (const name of ['sort', 'toSorted']) {
    const native = arrays[name];
    const method = {
      [name](compare) {
        return apply(native, bounded(this), [compare === undefined ? compareTexts : compare]);
      },
    }[name];
    replace(arrays, name, method);
  }

  // The built-in reads these properties after the check: a getter could change the length of an array that was checked.
  defineProperty(arrays, spreadable, { value: undefined });
  defineProperty(arrays, 'constructor', { writable: false, configurable: false });
  defineProperty(Array, Symbol.species, { configurable: false });
  const nativeConcat = arrays.concat;
  const isPlain = (value) => {
    if (!isObject(value)) return true;
    const isPlainArray = isArray(value) && !isProxy(value) && getPrototypeOf(value) === arrays;
    return isPlainArray && value.length <= LENGTH_MAX && !hasOwn(value, spreadable) && !hasOwn(value, 'constructor');
  };
  const spread = (list, value) => {
    const length = value.length;
    const first = list.length;
    for (let index = 0; index < length; index++) {
      if (index in value) list[first + index] = value[index];
    }
    list.length = first + length;
  };
  const flatten = (list, value, depth) => {
    const length = value.length;
    for (let index = 0; index < length; index++) {
      if (!(index in value)) continue;
      const item = value[index];
      if (depth > 0 && isArray(item)) flatten(list, item, depth - 1);
      else list[list.length] = item;
    }
    return list;
  };
  const written = {
    concat(...values) {
      let isFast = isPlain(this);
      let length = isArray(this) ? this.length : 1;
      for (let index = 0; isFast && index < values.length; index++) {
        isFast = isPlain(values[index]);
        length += isArray(values[index]) ? values[index].length : 1;
      }
      if (length > LENGTH_LONG) checkDeadline();
      if (isFast && length <= LENGTH_MAX) return apply(nativeConcat, this, values);
      const list = [];
      for (let index = -1; index < values.length; index++) {
        const value = index < 0 ? Object(this) : values[index];
        const isSpread = isObject(value) && (value[spreadable] === undefined ? isArray(value) : value[spreadable]);
        if (isSpread) spread(list, value);
        else list[list.length] = value;
      }
      return list;
    },
    flat(depth) {
      const levels = depth === undefined ? 1 : trunc(depth);
      return flatten([], Object(this), levels);
    },
    flatMap(map, self) {
      if (typeof map !== 'function') throw new TypeError('not a function');
      const list = [];
      const length = this.length;
      for (let index = 0; index < length; index++) {
        if (!(index in this)) continue;
        const item = apply(map, self, [this[index], index, this]);
        if (isArray(item)) flatten(list, item, 0);
        else list[list.length] = item;
      }
      return list;
    },
  };
  for (const name of ['concat', 'flat', 'flatMap']) replace(arrays, name, written[name]);

  // A pattern has its own method for these, which checks the deadline.
  const patterns = { replace: Symbol.replace, replaceAll: Symbol.replace, split: Symbol.split };
  const nativeIncludes = texts.includes;
  for (const name of ['includes', 'indexOf', 'lastIndexOf', 'replace', 'replaceAll', 'split']) {
    const native = texts[name];
    const method = {
      [name](search, ...values) {
        if (this === null || this === undefined) throw new TypeError('cannot convert to a string');
        if (search === undefined) return apply(native, this, arguments);
        if (isObject(search)) {
          const isPattern = search instanceof RegExp;
          if (name === 'includes' && isPattern) throw new TypeError('a text is expected, not a RegExp');
          if (name === 'replaceAll' && isPattern && !apply(nativeIncludes, text(search.flags), ['g'])) {
            throw new TypeError('replaceAll needs the flag g');
          }
          const pattern = patterns[name] && search[patterns[name]];
          if (pattern !== undefined && pattern !== null) return apply(pattern, search, [this, ...values]);
        }
        const within = text(this);
        const sought = text(search);
        if (within.length * sought.length > COMPARISONS_MAX) {
          throw new RangeError(`a search for ${sought.length} characters in ${within.length} takes too long`);
        }
        if (within.length * sought.length > COMPARISONS_LONG) checkDeadline();
        return apply(native, within, [sought, ...values]);
      },
    }[name];
    replace(texts, name, method);
  }
})
