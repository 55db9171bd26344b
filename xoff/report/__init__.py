"""Reports: pictures, pages and HPCC's text files, all from a run folder's records."""
