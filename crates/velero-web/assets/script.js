/* Keeps what is shown current. The server only tells that something changed; the page then fetches itself again, with the
   rights of who looks, and exchanges the parts that are marked. Without this script everything works but that. */
(() => {
  "use strict";
  /* How soon it is tried again when the server does not answer, or tells this page nothing: then it is asked. */
  const LATER = 5000;
  /* How long a pointer that is down holds up what comes: it may have been let go where nobody sees it. */
  const LONGEST_PRESS = 2000;
  const marked = () => document.querySelectorAll("[data-live][id]");
  if (!marked()[0] || !window.EventSource) return;
  let stream = null;
  let busy = false;
  let again = false;
  let timer = 0;
  let pressed = false;

  const note = document.createElement("p");
  note.className = "note";
  note.setAttribute("role", "status");
  note.textContent = "The server does not answer: this is what was there before. It is asked again.";

  /* What something is called, for as long as it is there: a link by where it leads, a button by what its form does. */
  const label = (element) => element.getAttribute("href") ?? [
    element.form?.getAttribute("action") ?? "",
    element.hasAttribute("tabindex") ? element.className : element.textContent,
  ].join(" ");

  /* The same thing in the part that comes. */
  const twin = (element, part, next) => {
    const wanted = label(element);
    const alike = (root) => [...root.querySelectorAll(element.tagName)].filter((other) => label(other) === wanted);
    return alike(next)[alike(part).indexOf(element)];
  };

  /* Exchanges a part. Who has opened something, or is somewhere with the keyboard, stays there. */
  const exchange = (part, next) => {
    for (const summary of part.querySelectorAll("summary")) {
      const other = twin(summary, part, next);
      if (other) other.parentElement.open = summary.parentElement.open;
    }
    if (next.innerHTML === part.innerHTML) return;
    const focused = part.contains(document.activeElement) && twin(document.activeElement, part, next);
    const moved = [...part.querySelectorAll("[tabindex]")].filter((element) => element.scrollLeft || element.scrollTop);
    const places = moved.map((element) => [twin(element, part, next), element.scrollLeft, element.scrollTop]);
    part.replaceWith(next);
    for (const [element, left, top] of places) element?.scrollTo({ left, top, behavior: "instant" });
    if (focused) focused.focus({ preventScroll: true });
  };

  /* A button that is exchanged while somebody presses it would not have been pressed. */
  const released = () => new Promise((resolve) => {
    if (!pressed) return resolve();
    addEventListener("pointerup", () => setTimeout(resolve), { once: true });
    setTimeout(resolve, LONGEST_PRESS);
  });

  const refresh = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.status >= 500) throw new Error(answer.statusText);
      if (!answer.ok || answer.redirected) {
        location.reload();
        return;
      }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      await released();
      note.remove();
      for (const part of marked()) {
        const next = fresh.getElementById(part.id);
        const typing = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
        if (next && !typing) exchange(part, next);
      }
      /* What has its answer does not change any more. */
      if (!marked()[0]) stop();
    } catch {
      /* What is shown stays, and says that it may be old. */
      marked()[0]?.before(note);
      later();
    } finally {
      busy = false;
      /* The server tells of changes a few times a second at most: what came meanwhile need not wait. */
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  const current = () => {
    if (document.hidden) return;
    listen();
    refresh();
  };

  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(current, LATER);
  };

  const stop = () => {
    clearTimeout(timer);
    stream?.close();
    stream = null;
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
    /* A browser comes back by itself unless it was refused: the session has ended, or too many pages are told of changes. */
    stream.addEventListener("error", ({ target }) => {
      if (target !== stream || target.readyState !== EventSource.CLOSED) return;
      stop();
      later();
    });
  };

  /* A browser has few connections to a host: pages that nobody sees give theirs back. */
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : current()));
  addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = false; }, true);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", ({ persisted }) => persisted && current());
  listen();
})();
