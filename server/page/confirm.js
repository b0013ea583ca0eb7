// Dialog that asks before something is done, and says if it was refused.

import { h, say } from "./dom.js";

let number = 0;

/**
 * Asks whether to do something. `act` does it, and returns a text that says what came of it; its failure is shown in the dialog. Returns
 * that text, or `null` if the person thought better of it.
 */
export function confirm({ title, text, action, act, field }) {
  const id = `confirm-${(number += 1)}`;
  return new Promise((resolve) => {
    const failure = h("p", { class: "failure", role: "alert" });
    const yes = h("button", { class: "danger", type: "submit" }, action);
    const no = h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel");
    const input = field && h("input", { id: `${id}-field`, maxlength: field.most, autocomplete: "off" });
    const form = h(
      "form",
      { onsubmit: submit },
      h("h2", { id }, title),
      text.map((line) => h("p", {}, line)),
      input && [h("label", { for: input.id }, field.label), input],
      failure,
      h("div", { class: "buttons" }, no, yes),
    );
    let result = null;
    const dialog = h("dialog", { "aria-labelledby": id, onclose: () => {
      dialog.remove();
      resolve(result);
    } }, form);
    async function submit(event) {
      event.preventDefault();
      yes.disabled = true;
      say(failure, "");
      try {
        result = await act(input?.value ?? "");
        dialog.close();
      } catch (error) {
        say(failure, error.code === "permission_denied" ? `Refused: ${error.message}` : `Failed: ${error.message}`);
        yes.disabled = false;
      }
    }
    document.body.append(dialog);
    dialog.showModal();
  });
}
