// The commands that empty screens show, to be copied. A test compares them with the reference of the command line.

const IMPORT = "everstep import examples/hello.yaml";

export const commands = {
  /** Saves an example. */
  import: IMPORT,
  /** Saves an example, and starts a run of it. */
  firstRun: `${IMPORT}\neverstep start hello --input '{"name": "Ada"}'`,
  keyWith: (permission: string) => `everstep keys create --name console --permissions ${permission}`,
  workerKey: "everstep keys create --name worker --role worker",
  setSecret: "everstep secrets set shop-token",
};
