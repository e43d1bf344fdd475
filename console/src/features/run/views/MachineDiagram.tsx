// The states of a machine, each with the actions and timers that lead from it to others.

import { useRef, useState } from "react";
import { t } from "../../../lib/i18n";
import { Button, Icon, type IconName, Tag } from "../../../ui";
import type { MachineMove, MachineState } from "../model/machineModel";
import "./machine.css";

const ICONS: Record<MachineMove["kind"], IconName> = { action: "arrowRight", timer: "clock", run: "workflow" };

export function MachineDiagram({ states }: { states: readonly MachineState[] }) {
  const places = useRef(new Map<string, HTMLLIElement>());
  const [shown, setShown] = useState<string | null>(null);
  const titles = new Map(states.map((state) => [state.name, state.title]));
  const show = (name: string) => {
    setShown(name);
    places.current.get(name)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className="ui-scroll">
      <ol className="diagram" aria-label={t("machine.states")}>
        {states.map((state) => (
          <li
            key={state.name}
            ref={(element) => {
              if (element) places.current.set(state.name, element);
            }}
            className={state.name === shown ? "diagram-row shown" : "diagram-row"}
          >
            <StateCard state={state} />
            <ul className="diagram-moves">
              {state.moves.map((move, index) => (
                <Move key={index} move={move} titles={titles} onShow={show} />
              ))}
              {state.moves.length === 0 && !state.isTerminal && <li className="faint">{t("machine.noMoves")}</li>}
            </ul>
          </li>
        ))}
      </ol>
    </div>
  );
}

function StateCard({ state }: { state: MachineState }) {
  const kind = state.isError ? "is-failed" : state.isTerminal ? "is-completed" : state.isInitial ? "is-running" : "";
  return (
    <div className={`diagram-state ${kind}`} title={state.description ?? undefined}>
      <b className="cut">{state.title}</b>
      <span className="row">
        {state.title !== state.name && <code className="cut faint">{state.name}</code>}
        {state.isInitial && <Tag>{t("machine.initial")}</Tag>}
        {state.isTerminal && <Tag>{state.isError ? t("machine.failedEnd") : t("machine.terminal")}</Tag>}
      </span>
    </div>
  );
}

interface MoveProps {
  move: MachineMove;
  titles: ReadonlyMap<string, string>;
  onShow: (state: string) => void;
}

function Move({ move, titles, onShow }: MoveProps) {
  const conditions = [
    move.isForAssigned && t("machine.forAssigned"),
    move.votes !== null && t("machine.needsVotes", { need: move.votes }),
    move.needsComment && t("machine.needsComment"),
    move.needsData.length > 0 && t("machine.needsData", { paths: move.needsData.join(", ") }),
  ].filter((text) => text !== false);
  return (
    <li className={`diagram-move is-${move.kind}`}>
      <span className="diagram-label">
        <Icon name={ICONS[move.kind]} size={14} />
        <span className="cut" title={move.label}>
          {labelOf(move)}
        </span>
      </span>
      <span className="row wrap">
        {move.to.map((name) => (
          <Button key={name} size="small" onPress={() => onShow(name)}>
            {titles.get(name) ?? name}
          </Button>
        ))}
        {move.to.length === 0 && <span className="faint">{t("machine.stays")}</span>}
        {conditions.length > 0 && <span className="muted">{conditions.join(" · ")}</span>}
      </span>
    </li>
  );
}

function labelOf(move: MachineMove): string {
  switch (move.kind) {
    case "action":
      return move.label;
    case "timer":
      return t("machine.after", { time: move.label });
    case "run":
      return t("machine.runs", { workflow: move.label });
  }
}
