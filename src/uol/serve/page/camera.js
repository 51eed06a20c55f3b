// A photograph from the camera, as a file.

const CONSTRAINTS = { video: { width: { ideal: 1280 }, facingMode: "user" }, audio: false };

export const hasCamera = () => Boolean(navigator.mediaDevices?.getUserMedia);

/** Shows the camera in a dialog; `take` is called with each photograph. */
export async function openCamera(dialog, take) {
  const video = dialog.querySelector("video"), problem = dialog.querySelector("[role=alert]"), shoot = dialog.querySelector("#shoot");
  problem.textContent = "";
  dialog.showModal();
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia(CONSTRAINTS);
  } catch (error) {
    problem.textContent = error.name === "NotAllowedError" ? "The browser was not allowed to use the camera." : "No camera was found.";
    return;
  }
  const stop = () => {
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  };
  if (!dialog.open) {
    stop();
    return;
  }
  dialog.addEventListener("close", stop, { once: true });
  video.srcObject = stream;
  shoot.onclick = () => {
    const canvas = document.createElement("canvas");
    canvas.width = video.videoWidth;
    canvas.height = video.videoHeight;
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => {
      const time = new Date().toTimeString().slice(0, 8).replaceAll(":", ".");
      if (blob) take(new File([blob], `camera ${time}.jpg`, { type: "image/jpeg" }));
      dialog.close();
    }, "image/jpeg", 0.95);
  };
}
