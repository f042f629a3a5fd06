/* Keeps what is shown current. The server only tells that something changed; the page then fetches itself again, with the
   rights of who looks, and exchanges the parts that are marked. Without this script everything works but that. */
(() => {
  "use strict";
  const marked = () => document.querySelectorAll("[data-live][id]");
  if (!marked()[0] || !window.EventSource) return;
  let stream = null;
  let busy = false;
  let again = false;

  const refresh = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) {
        location.reload();
        return;
      }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of marked()) {
        const next = fresh.getElementById(part.id);
        const typing = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
        if (next && !typing && next.innerHTML !== part.innerHTML) part.replaceWith(next);
      }
    } catch {
      /* The next change is another try. */
    } finally {
      busy = false;
      /* The server tells of changes a few times a second at most: what came meanwhile need not wait. */
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  /* The server hears what the page knows, and tells of what has changed since: nothing is missed before the stream begins. */
  const listen = () => {
    const { live, name, since } = marked()[0]?.dataset ?? {};
    if (stream || document.hidden || !live) return;
    const wanted = new URLSearchParams({ kind: live });
    if (name) wanted.set("name", name);
    if (since) wanted.set("since", since);
    stream = new EventSource("/live?" + wanted);
    stream.addEventListener("change", refresh);
  };

  /* A browser has few connections to a host: pages that nobody sees give theirs back. */
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      if (stream) stream.close();
      stream = null;
    } else {
      listen();
      refresh();
    }
  });
  addEventListener("pagehide", () => stream && stream.close());
  listen();
})();
