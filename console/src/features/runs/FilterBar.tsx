// The filter of the list: chips, a text field, and the statuses.

import { useState } from "react";
import { useWorkflows } from "../../api/queries";
import { t, tWord } from "../../lib/i18n";
import { RUN_STATUSES } from "../../lib/status";
import { Button, type Chip, Chips, ComboBox, Icon, Select, TextField } from "../../ui";
import { type Term, termsToText, textToTerms, withTerm } from "./filterModel";

interface FilterBarProps {
  terms: readonly Term[];
  onChange: (terms: Term[]) => void;
}

const SPANS = ["", "1h", "24h", "7d", "30d"] as const;

export function FilterBar({ terms, onChange }: FilterBarProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const [wrong, setWrong] = useState<string | null>(null);
  const workflows = useWorkflows();
  const value = (name: string) => terms.find((term) => term.name === name)?.value ?? "";
  const statuses = value("status") === "" ? [] : value("status").split(",");
  const apply = (text: string) => {
    const parsed = textToTerms(text);
    setWrong(parsed.ok ? null : parsed.wrong);
    if (!parsed.ok) return;
    onChange(parsed.terms);
    setDraft(null);
  };
  const toggleStatus = (status: string) => {
    const next = statuses.includes(status) ? statuses.filter((one) => one !== status) : [...statuses, status];
    onChange(withTerm(terms, "status", next.join(",")));
  };
  const since = SPANS.find((span) => span === value("since"));
  const options = (workflows.data ?? []).map((workflow) => ({ id: workflow.name, label: workflow.name }));
  const chips: Chip[] = terms
    .filter((term) => term.name !== "status" && !(term.name === "since" && since))
    .map((term) => ({ id: term.name, name: tWord("filter", term.name), value: term.value }));
  return (
    <div className="runs-filter">
      <div className="row wrap">
        <div className="runs-text">
          <TextField
            label={t("runs.filterText")}
            isLabelHidden
            icon="search"
            isCode
            type="search"
            placeholder={t("runs.filterExample")}
            value={draft ?? termsToText(terms)}
            error={wrong === null ? null : t("runs.filterWrong", { part: wrong })}
            onChange={(text) => {
              setDraft(text);
              if (text === "") apply("");
            }}
            onKeyDown={(event) => event.key === "Enter" && apply(draft ?? termsToText(terms))}
            onBlur={() => draft !== null && apply(draft)}
          />
        </div>
        <ComboBox
          label={t("filter.workflow")}
          isLabelHidden
          isCreatable
          placeholder={t("runs.anyWorkflow")}
          options={options}
          value={value("workflow")}
          onChange={(name) => {
            if (name === "" || options.some((option) => option.id === name))
              onChange(withTerm(terms, "workflow", name));
          }}
        />
        <Select
          label={t("filter.since")}
          isLabelHidden
          options={SPANS.map((span) => ({
            id: span === "" ? "any" : span,
            label: t(`span.${span === "" ? "any" : span}`),
          }))}
          value={since === undefined || since === "" ? "any" : since}
          onChange={(span) => onChange(withTerm(terms, "since", span === "any" ? null : span))}
        />
      </div>
      <div className="row wrap">
        <fieldset className="runs-statuses" aria-label={t("filter.status")}>
          {RUN_STATUSES.map((status) => (
            <Button
              key={status}
              size="small"
              tone="ghost"
              className={statuses.includes(status) ? "is-on" : ""}
              isPressed={statuses.includes(status)}
              onPress={() => toggleStatus(status)}
            >
              <span className={`dot is-${status}`} />
              {tWord("status", status)}
              {statuses.includes(status) && <Icon name="check" size={12} />}
            </Button>
          ))}
        </fieldset>
        <Chips label={t("runs.filters")} chips={chips} onRemove={(name) => onChange(withTerm(terms, name, null))} />
        {terms.length > 0 && (
          <Button size="small" tone="ghost" onPress={() => apply("")}>
            {t("runs.clearFilters")}
          </Button>
        )}
      </div>
    </div>
  );
}
