package present

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// changedEvery is the minimum interval between calls because somebody changed
// our comment on one proposal.
const changedEvery = time.Hour

// ChangedCall tells people that somebody changed the comment with the plan,
// because an edit notifies nobody. The argument what is a clause such as "it was
// edited at 14:02:03 UTC".
func ChangedCall(r *site.Review, what string, when time.Time) *site.Call {
	text := "**Somebody changed Slipway's comment with the plan of the site " + escape(r.Site) + ":**\n\n- " + escape(what) + "\n\n" +
		"Slipway rewrites the comment. Read it again before you merge. Merging approves only what the rewritten comment names; " +
		"a merge before that approves nothing. " +
		"To see who changed it, open the edit history in the comment's header.\n"
	return &site.Call{Key: fmt.Sprintf("changed-%d", when.Unix()/int64(changedEvery.Seconds())), Text: text}
}
