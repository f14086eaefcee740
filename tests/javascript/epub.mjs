// Reads the path of an e-book as JSON from stdin; prints what the validator says of it.
import { readFileSync } from 'node:fs';
import { EpubCheck } from '@likecoin/epubcheck-ts';

const path = JSON.parse(readFileSync(0, 'utf8'));
const result = await EpubCheck.validate(new Uint8Array(readFileSync(path)));
console.log(JSON.stringify({ valid: result.valid, messages: result.messages.map(one => `${one.id} ${one.severity}: ${one.message}`) }));
