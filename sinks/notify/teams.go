package notify

import (
	"fmt"
	"net/url"
)

// teamsMost is the maximum size of a message, in bytes. Teams accepts 28 KB, and counts two bytes per character
// where it handles the message as UTF-16.
const teamsMost = 13 << 10

// card is an Adaptive Card of version 1.4. Its texts are runs, which Teams does not parse as Markdown.
type card struct {
	Schema  string      `json:"$schema"`
	Type    string      `json:"type"`
	Version string      `json:"version"`
	Body    []cardBlock `json:"body"`
}

type cardBlock struct {
	Type      string    `json:"type"`
	Inlines   []cardRun `json:"inlines"`
	Separator bool      `json:"separator,omitempty"`
}

type cardRun struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Weight string `json:"weight,omitempty"`
}

// teamsPosts converts a message for the Microsoft Teams workflow "post to a channel when a webhook request is
// received".
func teamsPosts(address *url.URL, k credential, m Message) ([]request, error) {
	to, err := secretAddress(address, k)
	if err != nil {
		return nil, err
	}
	blocks := []cardBlock{{Type: "RichTextBlock", Inlines: []cardRun{{Type: "TextRun", Text: m.Summary, Weight: "Bolder"}}}}
	for i := range m.Events {
		add := func(text string) []byte {
			blocks = append(blocks, cardBlock{Type: "RichTextBlock", Separator: true, Inlines: []cardRun{{Type: "TextRun", Text: text}}})
			return teamsBody(blocks)
		}
		if len(add(m.Events[i].paragraph(m.Site))) > teamsMost-400 { // room for the next line
			blocks = blocks[:len(blocks)-1]
			add(fmt.Sprintf("%d more: slipway status", len(m.Events)-i))
			break
		}
	}
	return []request{{url: to, body: teamsBody(blocks), causes: m.causes()}}, nil
}

func teamsBody(blocks []cardBlock) []byte {
	type attachment struct {
		ContentType string  `json:"contentType"`
		ContentURL  *string `json:"contentUrl"`
		Content     card    `json:"content"`
	}
	return encode(struct {
		Type        string       `json:"type"`
		Attachments []attachment `json:"attachments"`
	}{"message", []attachment{{ContentType: "application/vnd.microsoft.card.adaptive",
		Content: card{"http://adaptivecards.io/schemas/adaptive-card.json", "AdaptiveCard", "1.4", blocks}}}})
}
