"use strict";
// Shows one pair at a time. Foreign text never becomes markup, because all of it is set as textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { review, pairs } = data;
  const storageKey = "spotsieve-review-" + review.id;
  const words = { copy: "copy", different: "no copy", skipped: "skipped" };
  const element = (id) => document.getElementById(id);
  let labels = {};
  let at = 0;
  let remembers = true;

  const read = () => {
    if (!remembers) return 0; // the stored labels are older than those of this page
    try {
      const stored = JSON.parse(localStorage.getItem(storageKey) || "{}");
      labels = {};
      for (const [number, label] of Object.entries(stored.labels || {}))
        if (number in pairs && Object.hasOwn(words, label)) labels[number] = label;
      return stored.at;
    } catch {
      remembers = false;
      return 0;
    }
  };

  const store = () => {
    try {
      localStorage.setItem(storageKey, JSON.stringify({ labels, at }));
      remembers = true;
    } catch {
      remembers = false;
    }
  };

  const part = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Controls and changes of direction would show another URL or title than the real one.
  const escaped = (text) =>
    text.replace(/[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/g,
      (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));

  const page = (side, what) => {
    const article = part("article");
    article.setAttribute("aria-label", what);
    const title = part("h2", "", escaped(side.title) || "(no title)");
    title.dir = "auto";
    article.append(title);
    const address = part("p", "address", what + " \u00b7 " + side.words.toLocaleString("en") + " words \u00b7 ");
    if (/^https?:\/\//i.test(side.url)) {
      const link = part("a", "", escaped(side.url));
      link.href = side.url;
      link.target = "_blank";
      link.rel = "noopener noreferrer nofollow";
      address.append(link);
    } else address.append(escaped(side.url));
    article.append(address);
    for (const [isKept, parts] of side.lines) {
      const line = part("p", isKept ? "line" : "line left-out");
      line.dir = "auto";
      parts.forEach((text, number) => {
        if (text) line.append(number % 2 ? part("mark", "", text) : text);
      });
      article.append(line);
    }
    if (side.cut) article.append(part("p", "address", "(" + side.cut.toLocaleString("en") + " more words)"));
    return article;
  };

  const formatted = (value) => value.toLocaleString("en");

  const show = (place) => {
    at = Math.max(0, Math.min(place, pairs.length - 1));
    const pair = pairs[at];
    const [earlier, later] = pair.sides;
    const right = page(later, "later page");
    const fresh = formatted(pair.fresh) + " of " + formatted(pair.words) + " words of its own text are fresh";
    right.children[1].after(part("p", pair.lost ? "fresh lost" : "fresh", (pair.lost ? "Lost? " : "") + fresh));
    element("pair").replaceChildren(page(earlier, "earlier page"), right);
    element("note").textContent = remembers ? "" : "This browser cannot store labels for this file: export them before you close it.";
    scrollTo(0, 0);
    tell();
  };

  const tell = () => {
    const count = { copy: 0, different: 0, skipped: 0 };
    for (const label of Object.values(labels)) count[label] += 1;
    const done = count.copy + count.different + count.skipped;
    element("place").textContent = "Pair " + (at + 1) + " of " + pairs.length;
    element("label").textContent = words[labels[at]] || "not judged";
    element("label").className = labels[at] || "";
    element("counts").textContent =
      done + " judged: " + count.copy + " copies, " + count.different + " no copies, " + count.skipped + " skipped";
    element("progress").max = pairs.length;
    element("progress").value = done;
    for (const name of Object.keys(words)) element(name).setAttribute("aria-pressed", String(labels[at] === name));
  };

  const judge = (label) => {
    read(); // another tab may have stored labels
    labels[at] = label;
    const last = at === pairs.length - 1;
    at = last ? at : at + 1;
    store();
    show(at);
    if (Object.keys(labels).length === pairs.length)
      element("note").textContent = "All pairs are judged. Export the labels (e), then run: spotsieve calibrate --labels";
    else if (last) element("note").textContent = "This was the last pair. Press u for the next unjudged pair.";
  };

  const goTo = (place) => {
    show(place);
    store();
  };

  const nextOpen = () => {
    for (let step = 1; step <= pairs.length; step += 1) {
      const place = (at + step) % pairs.length;
      if (!(place in labels)) return goTo(place);
    }
    element("note").textContent = "All pairs are judged.";
  };

  const tellVerdict = () => {
    const { drawn, reason, score, stratum } = pairs[at];
    const verdict = drawn === "dropped" ? "dropped (" + reason + ")" : "not dropped; the left page is its nearest earlier page";
    element("note").textContent = verdict + ", score " + score.toFixed(3) + "; stratum: " + review.strata[stratum].name;
  };

  const save = () => {
    const lines = [{ review }];
    pairs.forEach((pair, number) => {
      if (number in labels)
        lines.push({
          id_a: pair.id_a, id_b: pair.id_b, label: labels[number], stratum: review.strata[pair.stratum].name,
          drawn: pair.drawn, score: pair.score, reason: pair.reason,
        });
    });
    const text = lines.map((line) => JSON.stringify(line) + "\n").join("");
    const address = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
    const link = part("a");
    link.href = address;
    link.download = "labels.jsonl";
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    element("note").textContent = lines.length - 1 + " labels exported as labels.jsonl";
  };

  const acts = {
    copy: () => judge("copy"), different: () => judge("different"), skipped: () => judge("skipped"),
    back: () => goTo(at - 1), next: nextOpen, verdict: tellVerdict, export: save,
    rest: () => element("rest").setAttribute("aria-pressed", String(document.body.classList.toggle("short"))),
  };
  const keys = {
    c: "copy", n: "different", s: "skipped", b: "back", ArrowLeft: "back", u: "next", v: "verdict", e: "export", g: "rest",
  };
  for (const [name, act] of Object.entries(acts))
    element(name).addEventListener("click", (event) => {
      event.currentTarget.blur(); // so that a space bar does not judge the next pair
      act();
    });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key; // with Caps Lock too
    if (key === "ArrowRight") goTo(at + 1);
    else if (Object.hasOwn(keys, key)) acts[keys[key]]();
    else return;
    event.preventDefault();
  });
  addEventListener("storage", (event) => {
    if (event.key !== storageKey) return;
    read();
    tell();
  });
  const { lost, missed, words_gone: gone, judged } = review.fresh_text;
  element("fresh").textContent =
    "By fresh text, without labels: " + formatted(lost) + " pages lost, " + formatted(missed) + " missed, " + formatted(gone) +
    " words gone, of " + formatted(judged) + " judged pages of the crawl";
  show(read() || 0);
})();
