// wasi.mjs: runs a program for WASI: node tests/wasi.mjs PROGRAM
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const wasi = new WASI({ version: 'preview1', returnOnExit: true });
const program = await WebAssembly.instantiate(readFileSync(process.argv[2]),
                                              { wasi_snapshot_preview1: wasi.wasiImport });
process.exit(wasi.start(program.instance));
