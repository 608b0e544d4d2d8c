package plan

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// changedEvery is how often people are called at most because somebody changes
// our comment on one proposal.
const changedEvery = time.Hour

// ChangedCall tells people that somebody has changed the comment with the plan,
// which is an edit that notifies nobody. What was done is a clause such as "it was
// edited at 14:02:03 UTC".
func ChangedCall(r *site.Review, what string, when time.Time) *site.Call {
	text := "**Somebody has changed Slipway's comment with the plan of the site " + escape(r.Site) + ":**\n\n- " + escape(what) + "\n\n" +
		"Slipway writes it anew. Read it again before you merge: merging approves only what it names from then on, " +
		"and a merge before that approves nothing. " +
		"The history of the comment's edits, behind its heading, shows who changed it.\n"
	return &site.Call{Key: fmt.Sprintf("changed-%d", when.Unix()/int64(changedEvery.Seconds())), Text: text}
}
