// Rejects versions of Node.js that lack functions that the SDK uses. Every entry point imports this module before any other.

/** The first major version of Node.js that the SDK supports; `engines` in package.json has the same. */
const NODE_MAJOR_MIN = 20;

/** Throws if the version of Node.js is too old for the SDK. */
export function checkNodeVersion(version: string | undefined): void {
  const major = Number.parseInt(version ?? "", 10);
  if (major >= NODE_MAJOR_MIN) return;
  const found = version === undefined ? "this is not Node.js" : `this is Node.js ${version}`;
  throw new Error(`@everstep/sdk requires Node.js ${NODE_MAJOR_MIN} or later, and ${found}: install a newer version from https://nodejs.org`);
}

checkNodeVersion(process.versions.node);
