// Keeps an open page up to date, and moves through it by keys. Pages can be read without it.
"use strict";
(() => {
  const $ = id => document.getElementById(id);
  const site = document.body.dataset.site;

  // Times count by themselves.
  const distance = ms => {
    const ahead = ms < 0, s = Math.floor(Math.abs(ms) / 1000);
    if (Math.abs(ms) < 1000) return "now";
    const text = s < 120 ? s + " s" : s < 7200 ? Math.floor(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " days";
    return ahead ? "in " + text : text + " ago";
  };
  let skew = 0; // this browser's clock may be wrong
  const asOf = document.querySelector("time[data-fixed]");
  if (asOf) skew = Date.parse(asOf.dateTime) - Date.now();
  const count = () => {
    for (const t of document.querySelectorAll("time:not([data-fixed])")) {
      const text = distance(Date.now() + skew - Date.parse(t.dateTime));
      if (t.textContent !== text) t.textContent = text;
    }
  };

  // Changes come as parts of the page, which the server has made. They wait while somebody writes or selects
  // in the part, or presses a button of the mouse: a link that is replaced before the button is released is
  // not followed.
  const alive = $("alive");
  let pressed = false, waiting = {};
  const busy = (part, selected) => {
    const at = document.activeElement;
    return pressed || at && part.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName) || selected?.containsNode(part, true);
  };
  const scroll = (log, to) => { log.scrollTop = Math.min(to, log.scrollHeight); };
  document.querySelectorAll("pre.log").forEach(log => scroll(log, Infinity));
  const plain = part => part.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1");
  // What is around the pictures of a part: each is put into its place by itself, and its room stays, whose size the browser knows.
  const around = part => plain(part).replace(/(<figure id="[^"]*")[^]*?<\/figure>/g, "$1");
  const replace = (id, html) => {
    const part = $(id), next = document.createElement("template");
    if (!part) return;
    next.innerHTML = html;
    const now = next.content.firstElementChild;
    if (plain(part) === plain(now)) return;
    const kept = [...now.querySelectorAll(".room")].map(room => [room, part.querySelector("#" + CSS.escape(room.firstElementChild.id))?.parentElement]).filter(([, own]) => own);
    for (const [room] of kept) waiting[room.firstElementChild.id] ??= room.innerHTML;
    if (kept.length) goOn();
    if (kept.length && around(part) === around(now)) return;
    const open = [...part.querySelectorAll("details")].map(d => d.open);
    const chosen = part.querySelector("tr.chosen a")?.getAttribute("href");
    const focus = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const logs = [...part.querySelectorAll("pre.log")].map(log => log.scrollHeight - log.scrollTop - log.clientHeight < 8 ? Infinity : log.scrollTop);
    const reading = document.activeElement.matches("pre.log") && part.contains(document.activeElement);
    const inView = kept.map(([, own]) => own).find(own => own.getBoundingClientRect().bottom > 0), top = inView?.getBoundingClientRect().top;
    part.before(now);
    for (const [room, own] of kept) room.replaceWith(own);
    part.remove();
    if (inView) scrollBy({ top: inView.getBoundingClientRect().top - top, behavior: "instant" }); // the reader stays at the same rack
    now.querySelectorAll("pre.log").forEach((log, i) => { // its end stays in view, or the place that somebody reads
      scroll(log, logs[i] ?? Infinity);
      if (reading) log.focus({ preventScroll: true });
    });
    now.querySelectorAll("details").forEach((d, i) => { if (open[i]) d.open = true; });
    for (const a of now.querySelectorAll("a[href]")) {
      if (chosen && a.getAttribute("href") === chosen) a.closest("tr")?.classList.add("chosen");
      if (focus && a.getAttribute("href") === focus && !now.contains(document.activeElement)) a.focus({ preventScroll: true });
    }
  };
  // Parts are put into their places in frames alone. What the page looks like is asked at the beginning of one, when it is laid
  // out already: each question after a change would lay it out once more.
  const slice = 3; // milliseconds of script in one frame, which takes several times as long to lay out: between them, keys and the mouse are heard
  let frame = 0, told;
  const goOn = () => { frame ||= requestAnimationFrame(place); };
  const has = (html, id) => html.startsWith("<section ") && html.includes('id="' + id + '"');
  const show = parts => {
    for (const id in parts) // a section comes with its rows as they are now, also with those that the page does not have yet
      for (const other in waiting) if (other !== id && has(parts[id], other)) delete waiting[other];
    Object.assign(waiting, parts);
    goOn();
  };
  const place = () => {
    const selected = getSelection().isCollapsed ? null : getSelection();
    const began = performance.now();
    frame = 0;
    for (const id in waiting) { // a row comes after its section
      if (performance.now() - began > slice) {
        goOn();
        break;
      }
      const part = $(id), around = part?.parentElement?.closest("section[id]");
      const joins = !part && Object.keys(waiting).some(other => other !== id && has(waiting[other], id));
      if (part && busy(part, selected) || around && around.id in waiting || joins) continue;
      replace(id, waiting[id]);
      delete waiting[id];
    }
    if (alive && alive.textContent) alive.textContent = Object.keys(waiting).length && !frame ? "· changes wait while you select or write" : "· live";
    if (asOf && told && !Object.keys(waiting).length) {
      asOf.textContent = told.toISOString().slice(0, 19).replace("T", " ") + " UTC";
      told = undefined;
    }
    count();
  };
  addEventListener("pointerdown", () => { pressed = true; });
  for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, () => setTimeout(() => { pressed = false; show({}); }));
  document.addEventListener("selectionchange", () => { if (getSelection().isCollapsed) show({}); });
  setInterval(() => show({}), 5000);
  const lost = $("lost"), live = document.body.dataset.live;
  let source, since, over;
  const follow = () => {
    if (document.hidden || source && source.readyState !== EventSource.CLOSED) return;
    source = new EventSource(live);
    source.onopen = () => {
      if (!over) lost.hidden = true;
      since = undefined;
      if (alive) alive.textContent = "· live";
    };
    source.addEventListener("change", e => {
      over = false;
      lost.hidden = true;
      told = new Date(Date.now() + skew);
      show(JSON.parse(e.data));
    });
    source.addEventListener("over", e => { // the daemon answers, and does not make this page any more
      over = true;
      source.close();
      if (alive) alive.textContent = "";
      lost.textContent = "✕ This page is no longer kept up to date: " + JSON.parse(e.data) + ". Load it again.";
      lost.hidden = false;
      setTimeout(follow, 15000);
    });
    source.onerror = async () => {
      since ??= new Date(Date.now() + skew).toISOString().slice(11, 19) + " UTC";
      if (alive) alive.textContent = "";
      const refused = source.readyState === EventSource.CLOSED; // there was an answer
      const answer = refused ? await asked() : {};
      if (answer.status === 401) return logInAgain();
      setTimeout(() => {
        if (!since) return; // it is back already
        lost.textContent = answer.kind === "follows" ? "✕ This page shows what was known at " + since + ", and goes on by itself once this daemon leads. Until then: " + answer.error + "." :
          refused ? "✕ This page was last brought up to date at " + since + ": the daemon, or a proxy before it, answers with an error. Load the page again to see which." :
          "✕ The daemon does not answer since " + since + ". This page shows what was known then, and tries again by itself.";
        lost.hidden = false;
      }, 2500);
      if (refused) setTimeout(follow, 3000);
    };
  };
  // What the daemon says to whoever asks now.
  const asked = () => fetch("/api/v1/whoami", { cache: "no-store", signal: AbortSignal.timeout(3000) })
    .then(async answer => ({ ...await answer.json().catch(() => ({})), status: answer.status }), () => ({}));
  // Whoever is not known any more is seldom made known by trying again: another try is made each minute, for a page on a wall, and
  // when the page is looked at again. The person may have logged in on another page.
  const logInAgain = () => {
    const login = document.createElement("a");
    login.href = location.pathname + location.search;
    login.textContent = "Log in again";
    lost.replaceChildren("✕ Your login has ended. This page shows what was known at " + since + ", and is not kept up to date. ", login);
    lost.hidden = false;
    setTimeout(follow, 60000);
  };
  if (live) {
    follow();
    addEventListener("pagehide", () => source?.close());
    addEventListener("pageshow", e => { if (e.persisted) follow(); });
    // A browser has six connections to a host: pages that nobody sees keep none of them.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) return follow();
      source?.close();
      alive.textContent = "";
    });
  }

  // Keys.
  // The list of keys is no modal dialog: to make all else inert, the browser would style each element of the page again.
  if ($("keys-open")) $("keys-open").hidden = false;
  const main = "a[href]:not(.perma)"; // what a row is about, and not the link to the row itself
  const choose = by => {
    const rows = [...document.querySelectorAll("table.rows tbody tr, .card")].filter(r => r.querySelector(main) && !r.parentElement.closest(".card"));
    if (!rows.length) return;
    const at = rows.findIndex(r => r.classList.contains("chosen"));
    rows[at]?.classList.remove("chosen");
    const row = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
    row.classList.add("chosen");
    row.querySelector(main).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const places = { o: "", n: "/nodes", r: "/rollout", a: "/approvals" };
  let going = false;
  addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (going && e.key in places && site) {
      location.href = "/sites/" + encodeURIComponent(site) + places[e.key];
    } else if (e.key === "/" && $("find")) {
      const own = document.querySelector("main input[type=search]"); // what is on the page is searched first
      (own?.getClientRects().length ? own : $("find")).focus();
    } else if (e.key === "j") {
      choose(1);
    } else if (e.key === "k") {
      choose(-1);
    } else if (e.key === "?") {
      $("keys").togglePopover();
    } else if (e.key !== "g") {
      return;
    }
    going = e.key === "g";
    e.preventDefault();
  });
})();
