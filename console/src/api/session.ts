// The credential of this tab: an API key, or the token of a person.
//
// It is kept in the session storage and sent only in a header. Another tab signs in by itself.

import { createStore } from "../lib/store";

const NAME = "everstep.credential";

export interface Session {
  credential: string;
  /** The id of the key that a sign-in link has made. Signing out revokes it. */
  ownKey: string | null;
}

function read(): Session | null {
  try {
    const text = sessionStorage.getItem(NAME);
    return text ? (JSON.parse(text) as Session) : null;
  } catch {
    return null;
  }
}

export const sessionStore = createStore<Session | null>(read());

export function keepSession(session: Session): void {
  sessionStorage.setItem(NAME, JSON.stringify(session));
  sessionStore.set(session);
}

export function dropSession(): void {
  sessionStorage.removeItem(NAME);
  sessionStore.set(null);
}

/** The sign-in code in the address, which is removed from the address and the history. */
function takeSignInCode(): string | null {
  const code = new URLSearchParams(window.location.hash.slice(1)).get("code");
  if (code === null) return null;
  window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  return code;
}

/** The code of the last sign-in link that was opened in this tab; null if it was used or there was none. */
export const signInCodeStore = createStore<string | null>(takeSignInCode());

// A link that is pasted into a tab with the console changes only the fragment: the page is not loaded again.
window.addEventListener("hashchange", () => {
  const code = takeSignInCode();
  if (code !== null) signInCodeStore.set(code);
});
