"use strict";
const title = document.title;
let ahead = 0, heard = Date.now(), loading = false, wanted = false, timer;
function live() { return document.getElementById("live"); }
function now() { return Date.now() + ahead; }

// took says what the newest answer of the page's process shows.
function took() {
	ahead = live().dataset.now - Date.now();
	heard = Date.now();
	document.body.classList.toggle("stale", live().dataset.state === "stale");
	say(document.getElementById("state").textContent);
	gone(false);
	clearTimeout(timer);
	if (live().dataset.again) {
		timer = setTimeout(update, 1000);
	}
}

// say tells those who do not see the page. What is told again and again is not heard.
function say(text) {
	const said = document.getElementById("said");
	if (said.textContent !== text) {
		said.textContent = text;
	}
}
function gone(is) {
	document.body.classList.toggle("gone", is);
	document.getElementById("lost").hidden = !is;
	document.title = (is || live().dataset.state !== "ok" ? "(out of date) " : "") + title;
}

// What is shown is loaded again when the server says that something has changed.
async function update() {
	if (loading) {
		wanted = true;
		return;
	}
	loading = true;
	try {
		const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(5000)});
		const text = await answer.text(), end = "</main>";
		const main = text.slice(text.indexOf("<main"), text.indexOf(end) + end.length); // its style has another nonce
		const fresh = new DOMParser().parseFromString(main, "text/html").getElementById("live");
		if (!fresh) {
			throw new Error(text);
		}
		const at = document.activeElement, id = at && live().contains(at) ? at.id || at.getAttribute("href") : null;
		live().replaceWith(fresh);
		if (id) {
			const again = document.getElementById(id) || [...fresh.querySelectorAll("a")].find((a) => a.getAttribute("href") === id);
			again?.focus({preventScroll: true});
		}
		took();
	} catch (e) {
		gone(true);
	}
	loading = false;
	if (wanted) {
		wanted = false;
		update();
	}
}
function follow() {
	const at = new URL(location.href);
	at.searchParams.set("events", "");
	const stream = new EventSource(at);
	stream.onmessage = () => { heard = Date.now(); update(); };
	stream.addEventListener("alive", () => {
		heard = Date.now();
		if (document.body.classList.contains("gone")) {
			update();
		}
	});
	stream.onerror = () => {
		update();
		if (stream.readyState === EventSource.CLOSED) { // refused; otherwise the browser tries again
			setTimeout(follow, 2000);
		}
	};
}

// Ages go on, until the picture is out of date. They go on without the server, and without a sign of life the picture is out of date.
function grow() {
	for (const e of document.querySelectorAll("[data-since]")) {
		const frozen = e.closest(".picture") && document.body.matches(".stale, .gone"); // nothing is known of later
		const seconds = Math.max(0, Math.round(((frozen ? live().dataset.taken : now()) - e.dataset.since) / 1000));
		const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60;
		e.textContent = (h ? h + "h" : "") + (h || m ? m + "m" : "") + seconds % 60 + "s";
	}
	if (Date.now() - heard > 1900 && !loading && live().dataset.state === "ok") {
		update();
		if (Date.now() - heard > 2900) {
			gone(true);
		}
	}
}
took();
follow();
setInterval(grow, 500);
