// Small PNG files of opaque pictures.
import { crc32, deflateSync } from "node:zlib";

function chunk(type, data) {
  const out = Buffer.alloc(12 + data.length);
  out.writeUInt32BE(data.length, 0);
  out.write(type, 4, "latin1");
  data.copy(out, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
  return out;
}

/** RGB from RGBA; each line as the differences from the one above. */
export function png(width, height, rgba) {
  const lines = Buffer.alloc(height * (1 + 3 * width));
  for (let y = 0; y < height; y++) {
    const line = y * (1 + 3 * width);
    lines[line] = 2;
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) {
        const above = y > 0 ? rgba[((y - 1) * width + x) * 4 + c] : 0;
        lines[line + 1 + 3 * x + c] = (rgba[(y * width + x) * 4 + c] - above) & 0xff;
      }
    }
  }
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", head), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
