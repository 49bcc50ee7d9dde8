// Loads MathJax only where a page has equations; it is served by the site itself.
if (document.querySelector(".arithmatex")) {
  window.MathJax = {
    tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]] },
    options: { ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex", enableMenu: false },
  };
  const script = document.createElement("script");
  script.src = new URL("mathjax/tex-svg.js", document.currentScript.src);
  document.head.append(script);
}
