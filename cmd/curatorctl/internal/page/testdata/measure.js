function measure() {
	const found = {Sideways: [], Faint: [], Nameless: [], Tiny: [], Texts: 0, Focusables: 0};
	const of = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className && e.className.baseVal === undefined ? "." + e.className : "") +
		" " + (e.textContent || e.value || "").trim().slice(0, 30);
	const isSeen = (e) => {
		const box = e.getBoundingClientRect();
		return box.width > 1 && box.height > 1 && box.right > 0 && e.checkVisibility({visibilityProperty: true}) && !e.closest(".unseen");
	};

	// What is as wide as its content would need must fit.
	if (document.documentElement.scrollWidth > innerWidth) {
		found.Sideways.push("the page: " + document.documentElement.scrollWidth + " of " + innerWidth);
	}
	for (const e of document.querySelectorAll("body *")) {
		const box = e.getBoundingClientRect();
		if (isSeen(e) && !(e instanceof SVGElement && e.tagName !== "svg") && (box.right > innerWidth + 1 || box.left < -1)) {
			found.Sideways.push(of(e) + ": to " + Math.round(box.right));
		}
	}

	// The contrast as WCAG has it.
	const color = (text) => {
		const n = text.match(/[\d.]+/g).map(Number);
		return {r: n[0], g: n[1], b: n[2], a: n.length > 3 ? n[3] : 1};
	};
	const gray = (c) => {
		const y = 0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b;
		return {r: y, g: y, b: y, a: c.a};
	};
	const luminance = (c) => {
		const [r, g, b] = [c.r, c.g, c.b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (a, b) => {
		const [x, y] = [luminance(a), luminance(b)];
		return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
	};
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = color(getComputedStyle(e).backgroundColor);
			if (c.a > 0) {
				return c;
			}
		}
		return matchMedia("(prefers-color-scheme: dark)").matches ? color("rgb(18, 18, 18)") : color("rgb(255, 255, 255)");
	};
	const compare = (e, front, back, least, what) => {
		if (e.closest(".stale .picture, .gone .picture")) {
			[front, back] = [gray(front), gray(back)];
		}
		const ratio = contrast(front, back);
		if (ratio < least || front.a < 1) {
			found.Faint.push(of(e) + ": " + what + " " + ratio.toFixed(2));
		}
	};
	for (const e of document.querySelectorAll("body *")) {
		const style = getComputedStyle(e);
		const hasText = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()) || ["INPUT", "SELECT"].includes(e.tagName);
		if (["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(e.tagName) || !isSeen(e)) {
			continue;
		}
		if (hasText) {
			found.Texts++;
			compare(e, color(e instanceof SVGElement ? style.fill : style.color), behind(e), 4.5, "text");
			if (parseFloat(style.fontSize) < 12) {
				found.Tiny.push(of(e) + ": " + style.fontSize);
			}
		}
		for (const part of ["::before", "::after"]) {
			const s = getComputedStyle(e, part);
			if (s.content !== "none" && s.content !== "normal" && s.display !== "none") {
				compare(e, color(s.color), behind(e), 4.5, part);
			}
		}
		if (["INPUT", "SELECT", "BUTTON"].includes(e.tagName)) {
			compare(e, color(style.borderTopColor), behind(e.parentElement), 3, "edge");
		}
		if (e.tagName === "rect" && !e.classList.contains("line")) {
			compare(e, color(style.fill), color(getComputedStyle(document.querySelector("rect.line")).fill), 2, "bar");
			compare(e, color(style.fill), behind(e), 3, "bar");
		}
	}

	const controls = [...document.querySelectorAll("a[href], input, select, button, [tabindex='0']")].filter((e) => e.checkVisibility());
	found.Focusables = new Set(controls.map((e) => e.tagName + (e.id || e.getAttribute("href") || e.textContent))).size;
	for (const e of controls) {
		const label = e.labels?.[0]?.textContent || e.getAttribute("aria-label") || e.textContent;
		if (!label.trim()) {
			found.Nameless.push(of(e));
		}
	}
	return found;
}
