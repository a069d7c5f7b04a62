// Calling the visitor when it is their turn: by a sound and a notification, each only
// where they asked for it, and by the tab's title.
import { inBrowser } from './api.js';

const sounds = inBrowser('sound');
const notes = inBrowser('notify');
let audio = null;

// Sound needs a touch or a key before it may play, after every load of the page.
function unlock() {
  if (!sounds.get()) return;
  audio ??= new AudioContext();
  audio.resume();
}
for (const event of ['pointerdown', 'keydown']) addEventListener(event, unlock);

const canSound = typeof AudioContext === 'function';

// Chrome on Android has the constructor and throws in it: only a service worker may show
// notifications there. Without permission it shows nothing, so it can be tried.
const canNotify = (() => {
  if (typeof Notification !== 'function' || !isSecureContext) return false;
  if (Notification.permission === 'granted') return true;
  try {
    new Notification('').close();
    return true;
  } catch {
    return false;
  }
})();

// sound and notification are what the switches show: { can, on, note }, note being why
// one would not work yet.
export const sound = () => ({ can: canSound, on: canSound && sounds.get() === true, note: sounds.get() && audio?.state !== 'running' ? 'touch' : '' });
export const notification = () => ({
  can: canNotify,
  on: canNotify && notes.get() === true && Notification.permission === 'granted',
  note: canNotify && Notification.permission === 'denied' ? 'denied' : '',
});

// calling tells whether the visitor asked to be called, and can be.
export const calling = () => (sound().on && audio?.state === 'running') || notification().on;

export async function setSound(on) {
  sounds.set(on);
  if (!on) return;
  unlock();
  await audio.resume();
  chime();
}

export async function setNotification(on) {
  notes.set(on && (await Notification.requestPermission()) === 'granted');
}

// chime is three rising tones.
function chime() {
  if (audio?.state !== 'running') return;
  [523.25, 659.25, 783.99].forEach((frequency, i) => {
    const at = audio.currentTime + i * 0.18;
    const tone = new OscillatorNode(audio, { frequency });
    const volume = new GainNode(audio, { gain: 0 });
    volume.gain.setValueAtTime(0, at);
    volume.gain.linearRampToValueAtTime(0.25, at + 0.02);
    volume.gain.exponentialRampToValueAtTime(0.001, at + 0.5);
    tone.connect(volume).connect(audio.destination);
    tone.start(at);
    tone.stop(at + 0.5);
  });
}

let repeating = 0;

// call calls the visitor: the sound a few times, the notification once, and title in
// turns with the tab's own until hush or until they look.
export function call({ title, text }) {
  hush();
  if (notification().on) {
    try {
      const note = new Notification(title, { body: text, tag: 'sluice', requireInteraction: true });
      note.onclick = () => {
        focus();
        note.close();
      };
    } catch {
      notes.set(false); // see canNotify
    }
  }
  const plain = document.title;
  let times = 0;
  const again = () => {
    if (sound().on && times % 3 === 0 && times < 12) chime();
    document.title = document.hidden && times % 2 === 0 ? `● ${title}` : plain;
    times++;
  };
  again();
  repeating = setInterval(again, 1000);
}

export function hush() {
  clearInterval(repeating);
}
