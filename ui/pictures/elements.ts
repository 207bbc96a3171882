import { AddressBarElement } from "./bar-element.ts";
import { AddressMapElement } from "./map-element.ts";
import { TimeLineElement } from "./time-line-element.ts";

declare global {
  interface HTMLElementTagNameMap {
    "address-bar": AddressBarElement;
    "address-map": AddressMapElement;
    "time-line": TimeLineElement;
  }
}

/** Registers the elements; may be called again. */
export function defineElements(): void {
  if (customElements.get("address-bar") !== undefined) return;
  customElements.define("address-bar", AddressBarElement);
  customElements.define("address-map", AddressMapElement);
  customElements.define("time-line", TimeLineElement);
}
