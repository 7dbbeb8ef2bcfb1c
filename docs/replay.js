// The page of `rxlab serve` on a static site: it shows the intervals that lie next to it, as it shows a recording.
"use strict";

window.EventSource = class {
  addEventListener() {}
};

const machine = location.pathname.split("/").at(-2);
document.title = `${machine} - rxlab`;
document.getElementById("host").textContent = machine;
const choice = document.getElementById("recording");
new MutationObserver((_, observer) => {
  observer.disconnect();
  // There is one stretch.
  choice.hidden = true;
  const source = document.getElementById("source");
  source.value = "recorded";
  source.dispatchEvent(new Event("change"));
}).observe(choice, { attributes: true });
