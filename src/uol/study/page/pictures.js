// The images: fetched with the participant's token, decoded before they are shown, kept for when they come again.

import { picture } from "./client.js";

const MOST = 40;
const kept = new Map(); // key -> promise of an address in memory

/** An image element that is ready to be painted. */
export async function ready(key, description) {
  const image = new Image();
  image.alt = description;
  image.draggable = false;
  image.src = await address(key);
  await image.decode().catch(() => {}); // a damaged file is shown as such
  return image;
}

/** Fetches images that will be shown soon. */
export function preload(keys) {
  for (const key of keys) address(key).then((url) => Object.assign(new Image(), { src: url }).decode()).catch(() => {});
}

function address(key) {
  const found = kept.get(key) ?? picture(`/v1/images/${key}`).then((blob) => URL.createObjectURL(blob));
  kept.delete(key);
  kept.set(key, found); // the latest is last
  found.catch(() => kept.delete(key));
  if (kept.size > MOST) {
    const [oldest, old] = kept.entries().next().value;
    kept.delete(oldest);
    old.then((url) => URL.revokeObjectURL(url)).catch(() => {});
  }
  return found;
}
