// `/runs/:a/diff/:b`

import { DiffScreen } from "../features/run/diff/DiffScreen";
import "../features/run/run.css";

export default function DiffPage({ a, b }: { a: string; b: string }) {
  return <DiffScreen a={a} b={b} />;
}
