// Elements and texts. Data become text nodes and nothing else: titles come from strangers.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function build(created, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      created.setAttribute(name, value === true ? "" : value);
    }
  }
  created.append(...children.filter((child) => child !== null));
  return created;
}

/** Create an HTML element. Attributes that are null or false are left out; strings become text. */
export function element(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

/** Set a text, and leave the page alone if it is there already: a selection stays. */
export function setText(node, text) {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Replace the children of a node; the focus stays on the element of the same id. */
export function replaceKeepingFocus(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement.id : "";
  node.replaceChildren(...children);
  if (focused) {
    byId(focused)?.focus();
  }
}
