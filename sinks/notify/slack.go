package notify

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// These are Slack's bounds (https://docs.slack.dev/reference/block-kit/blocks): blocks of a message, and characters
// of the text in a block.
const (
	slackBlocks = 50
	slackText   = 3000
)

// slackPosts converts a message for a Slack incoming webhook: a block per event, and the summary for clients
// without blocks.
func slackPosts(address *url.URL, k credential, m Message) ([]request, error) {
	to, err := secretAddress(address, k)
	if err != nil {
		return nil, err
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type block struct {
		Type string `json:"type"`
		Text text   `json:"text"`
	}
	section := func(s string) block { return block{"section", text{"mrkdwn", slackEscape(s, slackText)}} }
	var blocks []block
	for i := range m.Events {
		if rest := len(m.Events) - i; len(blocks) == slackBlocks-1 && rest > 1 {
			blocks = append(blocks, section(fmt.Sprintf("%d more: slipway status", rest)))
			break
		}
		blocks = append(blocks, section(m.Events[i].paragraph(m.Site)))
	}
	body := encode(struct {
		Text   string  `json:"text"`
		Blocks []block `json:"blocks,omitempty"`
	}{slackEscape(m.Summary, slackText), blocks})
	return []request{{url: to, body: body, causes: m.causes()}}, nil
}

// paragraph is an event with what to do about it.
func (e *Event) paragraph(site string) string {
	text := site + ": " + e.line()
	if e.Do != "" && e.Event != EventResolved {
		text += "\nWhat to do: " + e.Do
	}
	return text
}

var slackControl = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}

// slackEscape makes Slack show a text literally, without links or mentions, in at most so many characters.
func slackEscape(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		shown, special := slackControl[r]
		if !special {
			shown = string(r)
		}
		if n += utf8.RuneCountInString(shown); n > most-1 {
			return b.String() + "…"
		}
		b.WriteString(shown)
	}
	return b.String()
}
