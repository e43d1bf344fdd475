// The steps of a run without a graph, in the order in which they began; the turns of its workers are bands.

import { useMemo } from "react";
import { t, tWord } from "../../../lib/i18n";
import { formatClock, formatDuration } from "../../../lib/time";
import { Empty, Icon, kindIcon, Pressable, StatusMark } from "../../../ui";
import type { Fold, StepFold, TurnFold } from "../model/fold";
import { useRunPart } from "../runContext";

interface Band {
  turn: TurnFold | null;
  number: number;
  steps: StepFold[];
}

/** The steps under the turn in which they began. */
export function bandsOf(fold: Fold): Band[] {
  const steps = [...fold.steps.values()].sort((a, b) => a.firstSeq - b.firstSeq);
  const turns = fold.run.turns;
  const bands: Band[] = [
    { turn: null, number: 0, steps: [] },
    ...turns.map((turn, index) => ({ turn, number: index + 1, steps: [] })),
  ];
  for (const step of steps) {
    const index = turns.findLastIndex((turn) => turn.firstSeq <= step.firstSeq) + 1;
    bands[index]?.steps.push(step);
  }
  return bands.filter((band) => band.turn !== null || band.steps.length > 0);
}

export function StepList({ selected, onSelect }: { selected: string | null; onSelect: (key: string) => void }) {
  const fold = useRunPart((view) => view.fold);
  const seq = useRunPart((view) => view.fold.run.seq);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the maps of a fold change in place; the seq says so.
  const bands = useMemo(() => bandsOf(fold), [fold, seq]);
  if (bands.length === 0) return <Empty icon="code" title={t("steps.none")} />;
  return (
    <div className="ui-scroll steps">
      {bands.map((band) => (
        <section key={band.number} className={band.turn?.isLost ? "band lost" : "band"}>
          {band.turn && (
            <div className="band-head">
              <b>{t("steps.turn", { n: String(band.number) })}</b>
              <span className="muted cut">{band.turn.worker}</span>
              <span className="faint">{formatClock(band.turn.beganAt, true)}</span>
              {band.turn.isLost && <span className="journal-error">{t("steps.lost")}</span>}
            </div>
          )}
          {band.steps.map((step) => (
            <Pressable
              key={step.key}
              className={step.key === selected ? `step-line is-${step.status} selected` : `step-line is-${step.status}`}
              isCurrent={step.key === selected}
              onPress={() => onSelect(step.key)}
            >
              <span className="canvas-icon">
                <Icon name={kindIcon(step.type)} />
              </span>
              <span className="grow cut">
                <b>{step.key}</b> <span className="faint">{step.type}</span>
              </span>
              {step.attempts.length > 1 && (
                <span className="muted">{t("graph.attempt", { n: step.attempts.length })}</span>
              )}
              <span className="muted">
                {step.since !== null && step.endedAt !== null
                  ? formatDuration(step.endedAt - step.since)
                  : tWord("status", step.status)}
              </span>
              <StatusMark status={step.status} size={16} />
            </Pressable>
          ))}
        </section>
      ))}
    </div>
  );
}
