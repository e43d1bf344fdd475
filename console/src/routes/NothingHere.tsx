// Any address that is no screen.

import { useState } from "react";
import { useLocation } from "wouter";
import { t } from "../lib/i18n";
import { withQuery } from "../lib/url";
import { Button, Empty, Page, TextField } from "../ui";

export function NothingHere() {
  const [path, navigate] = useLocation();
  const [text, setText] = useState("");
  return (
    <Page title={t("nothing.title")}>
      <Empty
        icon="search"
        title={t("nothing.title")}
        action={
          <form
            className="row"
            onSubmit={(event) => {
              event.preventDefault();
              navigate(withQuery("/runs", { text }));
            }}
          >
            <TextField
              label={t("nothing.search")}
              isLabelHidden
              icon="search"
              placeholder={t("nothing.search")}
              value={text}
              onChange={setText}
            />
            <Button type="submit">{t("nothing.submit")}</Button>
          </form>
        }
      >
        {t("nothing.text", { path })}
      </Empty>
    </Page>
  );
}
