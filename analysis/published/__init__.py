"""The published sources: Tables 1–6 and Figure 2, systems, claims, and an audit of the numbers."""
