// Reads {"secret", "headers", "body", "tolerance"} from standard input; prints which of the two public libraries accept it.
import { readFileSync } from "node:fs";
import Stripe from "stripe";
import { Webhook } from "standardwebhooks";

const { secret, headers, body, tolerance } = JSON.parse(readFileSync(0, "utf8"));
const accepted = (check) => { try { check(); return true; } catch { return false; } };

console.log(JSON.stringify({
  stripe: accepted(() => new Stripe("sk_test_x").webhooks.signature.verifyHeader(body, headers["x-webhook-signature"], secret, tolerance)),
  standardwebhooks: accepted(() => new Webhook(secret).verify(body, headers)),
}));
