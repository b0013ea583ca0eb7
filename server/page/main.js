// The page: settings, state, and the view that the address names.

import { askForAccess, watchedPrefix } from "./access.js";
import { parse } from "./address.js";
import { Api } from "./api.js";
import { Coordinators } from "./coordinators.js";
import { say } from "./dom.js";
import { Live } from "./live.js";
import * as token from "./token.js";
import { election } from "./views/election.js";
import { elections } from "./views/elections.js";
import { events } from "./views/events.js";
import { lock } from "./views/lock.js";
import { locks } from "./views/locks.js";
import { overview } from "./views/overview.js";
import { session } from "./views/session.js";
import { sessions } from "./views/sessions.js";

const VIEWS = { "": overview, locks, lock, sessions, session, elections, election, events };
/** Place in the navigation of views that are not in it themselves. */
const PARENTS = { lock: "locks", session: "sessions", election: "elections" };
/** Shortest time between two updates of a view, and between two ticks of its times, in milliseconds. */
const UPDATE = 100;
const TICK = 500;

const main = document.getElementById("main");
const state = document.getElementById("state");
const trouble = document.getElementById("trouble");

const settings = await fetch("settings.json", { cache: "no-store" }).then((response) => response.json());
const apis = settings.coordinators.map((url) => new Api(url, token.current));
const live = new Live(apis, changed);
const coordinators = new Coordinators(apis, (api, { state }) => {
  live.answered(api, state !== "out of reach");
  changed();
});
const app = { live, coordinators, api: () => live.api ?? apis[0], search: { prefix: "" } };

let view = { element: null };
let isDue = false;
let isAsked = false;

/** Brings the page up to date soon. */
function changed() {
  if (!isDue) {
    isDue = true;
    setTimeout(() => requestAnimationFrame(update), UPDATE);
  }
}

function update() {
  isDue = false;
  showState();
  view.update?.();
}

/** Returns why the page is not live: the error of its stream, or else that of the first coordinator in trouble. */
function obstacle() {
  if (live.api) {
    return null;
  }
  return live.error ?? coordinators.list.find(({ error }) => error)?.error ?? null;
}

function showState() {
  const why = obstacle();
  say(state, live.api ? "live" : why ? "not live" : "connecting");
  state.dataset.state = state.textContent;
  say(trouble, why ? explained(why) : "");
  trouble.hidden = trouble.textContent === "";
  if (why?.code === "unauthenticated" && !isAsked) {
    isAsked = true;
    ask();
  }
}

function explained(error) {
  switch (error.code) {
    case "unauthenticated":
      return `The coordinator asks who calls: ${error.message}`;
    case "permission_denied":
      return `Not live: ${error.message}. A token that may inspect some locks only needs their prefix: see Access.`;
    case "unreachable":
      return (
        `Not live: ${error.message}. Either it is out of reach, or it does not let this page call ` +
        "(page-coordinators, cors-origins). Trying again."
      );
    default:
      return `Not live: ${error.message}. Trying again.`;
  }
}

function ask() {
  const why = obstacle()?.code === "unauthenticated" ? "The coordinator answers callers with a token only." : "";
  askForAccess(why, () => live.start(watchedPrefix()));
}

function open() {
  const { view: name, id } = parse(location.hash);
  view.close?.();
  const isFirst = view.element === null;
  view = (VIEWS[name] ?? overview)(app, id);
  document.title = `${view.title} – Leasehold`;
  main.replaceChildren(view.element);
  for (const link of document.querySelectorAll("nav a")) {
    link.ariaCurrent = link.hash === `#/${PARENTS[name] ?? name}` ? "page" : null;
  }
  view.update?.();
  view.tick?.();
  if (!isFirst) {
    main.querySelector("h1").focus();
  }
}

setInterval(() => {
  if (live.mirror.sweep(performance.now())) {
    changed();
  }
  if (!document.hidden) {
    view.tick?.();
  }
}, TICK);
addEventListener("hashchange", open);
document.getElementById("access").addEventListener("click", ask);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
live.start(watchedPrefix());
open();
