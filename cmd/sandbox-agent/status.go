// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/agent"
)

func statusCommand(environ []string, out *outcome) *cobra.Command {
	var ops, output string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what the agent on this host sees",
		Example: "  sandbox-agent status\n  sandbox-agent status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("output: %q is not one of table, json", output)
			}
			if v := lookup(environ)(envPrefix + "OPS_LISTEN"); v != "" && !cmd.Flags().Changed("ops-listen") {
				ops = v
			}
			out.accepted = true
			s, err := fetchStatus(ops)
			if err != nil {
				return err
			}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), s)
			}
			return printStatus(cmd.OutOrStdout(), s)
		},
	}
	cmd.Flags().StringVar(&ops, "ops-listen", defaultOps, "the agent's ops listener")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// maxStatus bounds what is read of an agent, in bytes.
const maxStatus = 4 << 20

func fetchStatus(ops string) (s agent.Status, err error) {
	client := &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Get("http://" + ops + "/status")
	if err != nil {
		return s, fmt.Errorf("no agent answers on %s: start one with sandbox-agent run, or name its listener with --ops-listen: %w", ops, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %d: it is not an agent", ops, resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&s); err != nil {
		return s, fmt.Errorf("%s does not answer as an agent does: %w", ops, err)
	}
	return s, nil
}

func printStatus(w io.Writer, s agent.Status) error {
	fmt.Fprintf(w, "Agent %s, instance %s, %s\n", plain(s.Version), plain(s.Instance), map[bool]string{true: "ready", false: "not ready"}[s.Ready])
	if g := s.Gateway; g != nil {
		state := "not connected"
		if g.Connected {
			state = "connected"
		}
		fmt.Fprintf(w, "Gateway %q: %s", g.Address, state)
		if g.Seconds > 0 {
			fmt.Fprintf(w, " for %v", time.Duration(g.Seconds*float64(time.Second)).Round(time.Second))
		}
		if g.LastError != "" && !g.Connected {
			fmt.Fprintf(w, ": %q", g.LastError)
		}
		fmt.Fprintln(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tPORT\tCHECK\tSTATE\tREASON\tCODE\tAGE\tLATENCY\tADDRESS")
	for _, svc := range s.Services {
		check := svc.Path
		if check == "" {
			check = "(any answer)"
		}
		check = plain(check)
		age, latency := "-", "-"
		if svc.Reason != "" { // otherwise there was no attempt yet
			age, latency = fmt.Sprintf("%.1fs", svc.Age), fmt.Sprintf("%.1fms", svc.Latency*1000)
		}
		fmt.Fprintf(t, "%q\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", svc.Name, svc.Port, check, plain(svc.State), dash(svc.Reason),
			code(svc.Code), age, latency, dash(svc.Address))
	}
	return t.Flush()
}

// printJSON escapes whatever is not printable, which can only be within
// strings.
func printJSON(w io.Writer, s agent.Status) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err = io.WriteString(w, out.String()+"\n")
	return err
}

// plain escapes what could act on a terminal: whoever answers on the port may
// be no agent.
func plain(s string) string {
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return plain(s)
}

func code(c uint16) string {
	if c == 0 {
		return "-"
	}
	return fmt.Sprint(c)
}
